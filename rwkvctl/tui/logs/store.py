"""A log in memory: raw lines in large pieces, at most a number of lines, the oldest given up first. Pure.

A line has a number that never changes, so a reader that stands still loses nothing and is not moved when old lines go.
A piece is one byte string with the ends of its lines: a hundred thousand lines cost what their bytes cost, and a search
is one look through each piece.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

MOST_LINES: Final = 1_000_000
PIECE_BYTES: Final = 64 * 1024
PIECES_AT_ONCE: Final = 48
"""Pieces that are searched before something else may happen: three megabytes."""

FIGURES: Final = re.compile(rb"\d[\d.,:%]*")
"""Numbers, times and shares: what tells repeated lines apart."""

LONGEST_LINE: Final = 16 * 1024
"""Bytes of a line that are kept: one that never ends must not fill the memory or stall the screen."""


class Piece:
    """Some lines: the number of the first, their bytes with line ends, and where each line ends."""

    __slots__ = ("data", "ends", "first")

    def __init__(self, first: int) -> None:
        self.first, self.data = first, bytearray()
        self.ends: array[int] = array("I")

    def line(self, number: int) -> bytes:
        """Return one of the piece's lines without its end."""
        place = number - self.first
        return bytes(self.data[self.ends[place - 1] if place else 0 : self.ends[place] - 1])

    def number_at(self, offset: int) -> int:
        """Return the number of the line that holds a byte."""
        return self.first + bisect_right(self.ends, offset)


class LineTest(NamedTuple):
    """A test of lines: every word occurs, no excluded word does, and the expression is found. Lower-case text matches
    any case; `exact` says that the text has upper-case letters."""

    text: str
    words: tuple[bytes, ...] = ()
    without: tuple[bytes, ...] = ()
    expression: re.Pattern[bytes] | None = None
    exact: bool = False

    def passes(self, line: bytes) -> bool:
        """Return whether a line matches."""
        folded = line if self.exact else line.lower()
        return (
            all(word in folded for word in self.words)
            and not any(word in folded for word in self.without)
            and (self.expression is None or self.expression.search(line) is not None)
        )

    def candidates(self, piece: Piece) -> list[int]:
        """Return the lines of a piece that may match: those with the first word or the expression, else all."""
        if self.words:
            data = piece.data if self.exact else piece.data.lower()
            return [piece.number_at(offset) for offset in offsets(data, self.words[0])]
        if self.expression is not None and not self.without:
            starts = [match.start() for match in self.expression.finditer(piece.data)]
            return list(dict.fromkeys(piece.number_at(start) for start in starts if start < len(piece.data)))
        return list(range(piece.first, piece.first + len(piece.ends)))


def offsets(data: bytearray, word: bytes) -> Iterator[int]:
    """Yield the byte offset of a word, once per line."""
    offset = data.find(word)
    while offset >= 0:
        yield offset
        offset = data.find(word, data.find(b"\n", offset))


def line_test(text: str) -> LineTest:
    """Return the test for typed text: words, `!word`, or `re:` and an expression. Raises ValueError with a sentence."""
    if text.startswith("re:"):
        try:
            return LineTest(text, expression=re.compile(text[3:].encode(), re.MULTILINE))
        except re.error as error:
            raise ValueError(f"{text[3:]} is not a regular expression: {error}") from error
    words = text.split()
    wanted = sorted((word for word in words if word[0] != "!" or len(word) == 1), key=len, reverse=True)
    without = [word[1:] for word in words if word[0] == "!" and len(word) > 1]
    exact = text != text.lower()
    return LineTest(text, tuple(map(str.encode, wanted)), tuple(map(str.encode, without)), exact=exact)


class LogStore:
    """The lines of a log between two numbers: `first` is the oldest that is kept, `end` the one after the newest."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self.most = most
        self.first = self.end = 0
        self.notes: dict[int, str] = {}
        self._pieces: list[Piece] = []
        self._firsts: list[int] = []
        self._rest = b""

    def feed(self, text: str) -> int:
        """Take in a piece of a log, which may end within a line. Returns how many lines it completed."""
        before = self.end
        *whole, self._rest = (self._rest + text.encode(errors="replace")).split(b"\n")
        self._rest = self._rest[:LONGEST_LINE]
        self.extend(whole)
        return self.end - before

    def extend(self, lines: list[bytes]) -> None:
        """Append whole lines without line ends; each is cut to LONGEST_LINE bytes."""
        piece = self._pieces[-1] if self._pieces else None
        for line in lines:
            if piece is None or len(piece.data) >= PIECE_BYTES:
                piece = Piece(self.end)
                self._pieces.append(piece)
                self._firsts.append(self.end)
            piece.data += line[:LONGEST_LINE]
            piece.data.append(10)
            piece.ends.append(len(piece.data))
            self.end += 1
        self._give_up()

    def note(self, text: str) -> None:
        """Append a note of the console: a mark, or a gap that was filled."""
        self.notes[self.end] = text
        self.extend([text.encode()])

    def clear(self) -> None:
        """Remove all lines and notes; the numbering of lines continues."""
        self.first = self.end
        self._pieces, self._firsts, self._rest = [], [], b""
        self.notes.clear()

    def _give_up(self) -> None:
        """Drop the oldest pieces above the limit, whole pieces only."""
        self.first = max(self.first, self.end - self.most)
        while len(self._pieces) > 1 and self._firsts[1] <= self.first:
            del self._pieces[0], self._firsts[0]
        if self.notes and min(self.notes) < self.first:
            self.notes = {number: text for number, text in self.notes.items() if number >= self.first}

    def line(self, number: int) -> bytes:
        """Return the line of this number, which lies between `first` and `end`."""
        return self._pieces[bisect_right(self._firsts, number) - 1].line(number)

    def pieces(self, start: int, end: int, *, backward: bool = False) -> Iterator[Piece]:
        """Yield the pieces that hold lines between two numbers."""
        low = max(0, bisect_right(self._firsts, start) - 1)
        high = bisect_left(self._firsts, end)
        yield from reversed(self._pieces[low:high]) if backward else self._pieces[low:high]

    def matching(self, test: LineTest, start: int, end: int) -> Iterator[int]:
        """Yield the numbers of the lines that match, from `start` up to `end`."""
        for piece in self.pieces(start, end):
            yield from (number for number in hits(piece, test) if max(start, self.first) <= number < end)

    def seek(self, test: LineTest, start: int, *, backward: bool = False) -> Iterator[int]:
        """Yield the numbers of lines that match, nearest first: from `start` on, or before it; -1 now and then, so that
        the caller can do something else in between."""
        span = (self.first, start) if backward else (start, self.end)
        for number, piece in enumerate(self.pieces(*span, backward=backward)):
            found = [line for line in hits(piece, test) if max(span[0], self.first) <= line < span[1]]
            yield from reversed(found) if backward else found
            if number % PIECES_AT_ONCE == PIECES_AT_ONCE - 1:
                yield -1


def hits(piece: Piece, test: LineTest) -> list[int]:
    """Return the numbers of the lines of a piece that match, in order."""
    found = test.candidates(piece)
    if len(test.words) == 1 and not test.without and test.expression is None:
        return found
    return [number for number in found if test.passes(piece.line(number))]


class Scan:
    """The lines that are meant, found bit by bit, so that a million lines never hold up a key.

    Folded, of lines that differ in their figures alone only the first and the newest stand: `folded` says how many lie
    between them, by the number of the newest.
    """

    def __init__(self, test: LineTest, store: LogStore, *, folds: bool = False) -> None:
        self.test, self.store, self.folds = test, store, folds
        self.hits: array[int] = array("Q")
        self.dropped = 0
        self.at = store.first
        self.folded: dict[int, int] = {}
        self._shape, self._alike = b"", 0

    @property
    def done(self) -> bool:
        """Return whether every line has been tested."""
        return self.at >= self.store.end

    def step(self, lines: int = 4096) -> None:
        """Test some more lines. Notes of the console pass every test, so that they can always be found."""
        start, end = self.at, min(self.store.end, max(self.at, self.store.first) + lines)
        notes = {number for number in self.store.notes if start <= number < end}
        found = self.store.matching(self.test, start, end)
        shown = sorted(notes.union(found)) if notes else found
        if self.folds:
            for number in shown:
                self._fold(number)
        else:
            self.hits.extend(shown)
        self.at = end

    def _fold(self, number: int) -> None:
        """Take a line in: after two that look like it, it stands in place of the second."""
        shape = b"" if number in self.store.notes else shape_of(self.store.line(number))
        self._alike = self._alike + 1 if shape and shape == self._shape else 1
        self._shape = shape
        if self._alike > 2 and len(self.hits) > 1:
            self.folded.pop(self.hits.pop(), None)
            self.folded[number] = self._alike - 2
        self.hits.append(number)

    def prune(self) -> None:
        """Drop hits whose lines are gone; the places of the others do not change."""
        gone = bisect_left(self.hits, self.store.first)
        if gone:
            for number in self.hits[:gone] if self.folded else ():
                self.folded.pop(number, None)
            del self.hits[:gone]
            self.dropped += gone


def shape_of(line: bytes) -> bytes:
    """Return a line without its digits; empty for an empty line."""
    return FIGURES.sub(b"0", line)
