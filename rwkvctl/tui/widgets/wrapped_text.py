"""Long texts as rows of a screen: control characters as marks, spans with roles, folded between words. Pure.

A text is made safe once, and folded once for a width; rows are cut out of it when they are drawn, so a completion of
two hundred thousand characters scrolls as one of two hundred.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rwkvctl.text.sanitize import PLAIN, cell_width, safe_text
from rwkvctl.tui.widgets.strips import Pieces

TAB: Final = 4
INDENT: Final = 1
"""The column where text begins."""


class Span(NamedTuple):
    """A part of a line that has a role."""

    start: int
    end: int
    role: str


class Line(NamedTuple):
    """One line of a text, safe to draw, with its spans in order."""

    text: str
    spans: tuple[Span, ...] = ()

    def pieces(self, start: int, end: int) -> Pieces:
        """A part of it, as pieces."""
        found: list[tuple[str, str]] = []
        at = start
        for span in self.spans:
            low, high = max(span.start, at), min(span.end, end)
            if low < high:
                found += [(self.text[at:low], ""), (self.text[low:high], span.role)]
                at = high
        found.append((self.text[at:end], ""))
        return [piece for piece in found if piece[0]]


class Part(NamedTuple):
    """A titled part of a page. `raw` is what is copied of it: the text as it came; `name` says what it is."""

    title: Pieces
    lines: Sequence[Line]
    name: str = ""
    raw: str = ""


class Row(NamedTuple):
    """A row of the screen: a part of a line, or (line -1) the title of a part."""

    part: int
    line: int
    start: int = 0
    end: int = 0


def lines_of(pieces: Iterable[tuple[str, str]]) -> list[Line]:
    """Text as it came, in pieces with roles, as safe lines."""
    lines: list[Line] = []
    text, spans = "", list[Span]()
    for raw, role in pieces:
        first, *others = safe_text(raw).expandtabs(TAB).split("\n")
        text, spans = grown(text, spans, first, role)
        for other in others:
            lines.append(Line(text, tuple(spans)))
            text, spans = grown("", [], other, role)
    return [*lines, Line(text, tuple(spans))]


def grown(text: str, spans: list[Span], more: str, role: str) -> tuple[str, list[Span]]:
    """A line with a piece added to its end."""
    if role and more:
        return text + more, [*spans, Span(len(text), len(text) + len(more), role)]
    return text + more, spans


def plain_line(pieces: Pieces) -> Line:
    """Pieces that are safe already, as one line."""
    text, spans = "", list[Span]()
    for more, role in pieces:
        text, spans = grown(text, spans, more, role)
    return Line(text, tuple(spans))


def breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Where a line is folded: start and end of each row, between words where there is a blank in its later half."""
    width = max(2, width)
    if len(text) <= width and cell_width(text) <= width:
        return [(0, len(text))]
    return plain_breaks(text, width) if PLAIN.issuperset(text) else wide_breaks(text, width)


def plain_breaks(text: str, width: int) -> list[tuple[int, int]]:
    """The same where every character takes one cell."""
    rows, start = list[tuple[int, int]](), 0
    while len(text) - start > width:
        blank = text.rfind(" ", start + width // 2, start + width + 1)
        end = blank if blank > 0 else start + width
        rows.append((start, end))
        start = end + (blank > 0)
    return [*rows, (start, len(text))]


def wide_breaks(text: str, width: int) -> list[tuple[int, int]]:
    """The same where characters take none, one or two."""
    rows, start, used, blank = list[tuple[int, int]](), 0, 0, -1
    for place, char in enumerate(text):
        wide = char_width(char)
        if used + wide > width:
            end = blank if blank > start + width // 4 else place
            rows.append((start, end))
            start = end + (end == blank)
            used = sum(map(char_width, text[start:place])) if start < place else 0
        if char == " ":
            blank = place
        used += wide
    return [*rows, (start, len(text))]


@lru_cache(8192)
def char_width(char: str) -> int:
    """Return how many terminal cells a character takes: 0, 1 or 2."""
    return cell_width(char)


class Page:
    """Parts one below the other, folded for a width; 0: every line is one row."""

    def __init__(self, parts: Sequence[Part], width: int) -> None:
        self.parts = list(parts)
        self.rows: list[Row] = []
        self.starts: list[int] = []
        self.widest = 0
        for number, part in enumerate(self.parts):
            self.starts.append(len(self.rows))
            self.rows.append(Row(number, -1))
            for place, line in enumerate(part.lines):
                folded = breaks(line.text, width) if width else [(0, len(line.text))]
                self.rows += [Row(number, place, start, end) for start, end in folded]

    def part_at(self, row: int) -> int:
        """The part in which a row lies."""
        return max(0, bisect_right(self.starts, row) - 1)

    def end_of(self, part: int) -> int:
        """The row after a part's last one."""
        return self.starts[part + 1] if part + 1 < len(self.starts) else len(self.rows)

    def pieces(self, row: int) -> Pieces:
        """What stands on a row."""
        found = self.rows[row]
        part = self.parts[found.part]
        return part.title if found.line < 0 else part.lines[found.line].pieces(found.start, found.end)

    def row_of(self, part: int, line: int, offset: int) -> int:
        """The row on which a character of a line stands."""
        place = bisect_right(self.rows, Row(part, line, offset, 1 << 60)) - 1
        return max(0, place)
