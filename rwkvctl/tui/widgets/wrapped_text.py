"""Long texts as rows of a screen: control characters as marks, spans with roles, wrapped between words. A text is made
safe once, and wrapped once for a width; rows are cut out of it when they are drawn, so scrolling costs the same for a
completion of any length. Pure."""

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
    """A part of a line with a role."""

    start: int
    end: int
    role: str


class Line(NamedTuple):
    """One line of a text, safe to draw, with its spans in order."""

    text: str
    spans: tuple[Span, ...] = ()

    def pieces(self, start: int, end: int) -> Pieces:
        """Return the part of the line from `start` to `end` as pieces with their spans' roles."""
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


class TextRow(NamedTuple):
    """A row of the screen: a part of a line, or (line -1) the title of a part."""

    part: int
    line: int
    start: int = 0
    end: int = 0


def lines_of(pieces: Iterable[tuple[str, str]]) -> list[Line]:
    """Return pieces of raw text with roles as safe lines."""
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
    """Return a line with a piece added to its end."""
    if role and more:
        return text + more, [*spans, Span(len(text), len(text) + len(more), role)]
    return text + more, spans


def plain_line(pieces: Pieces) -> Line:
    """Return pieces that are already safe as one line."""
    text, spans = "", list[Span]()
    for more, role in pieces:
        text, spans = grown(text, spans, more, role)
    return Line(text, tuple(spans))


def breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Return the start and end of each row of a wrapped line; it breaks at a blank if there is one in the row's later
    half."""
    width = max(2, width)
    if len(text) <= width and cell_width(text) <= width:
        return [(0, len(text))]
    return plain_breaks(text, width) if PLAIN.issuperset(text) else wide_breaks(text, width)


def plain_breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Return the same as `breaks` if every character takes one cell."""
    rows, start = list[tuple[int, int]](), 0
    while len(text) - start > width:
        blank = text.rfind(" ", start + width // 2, start + width + 1)
        end = blank if blank > 0 else start + width
        rows.append((start, end))
        start = end + (blank > 0)
    return [*rows, (start, len(text))]


def wide_breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Return the same as `breaks` if characters take 0, 1 or 2 cells."""
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
    """Parts one below another, wrapped for a width; with width 0 every line is one row."""

    def __init__(self, parts: Sequence[Part], width: int) -> None:
        self.parts = list(parts)
        self.rows: list[TextRow] = []
        self.starts: list[int] = []
        self.widest = 0
        for number, part in enumerate(self.parts):
            self.starts.append(len(self.rows))
            self.rows.append(TextRow(number, -1))
            for place, line in enumerate(part.lines):
                folded = breaks(line.text, width) if width else [(0, len(line.text))]
                self.rows += [TextRow(number, place, start, end) for start, end in folded]

    def part_at(self, row: int) -> int:
        """Return the part of a row."""
        return max(0, bisect_right(self.starts, row) - 1)

    def end_of(self, part: int) -> int:
        """Return the row after a part's last one."""
        return self.starts[part + 1] if part + 1 < len(self.starts) else len(self.rows)

    def pieces(self, row: int) -> Pieces:
        """Return the pieces of a row of the page: a part's title, or a piece of one of its lines."""
        found = self.rows[row]
        part = self.parts[found.part]
        return part.title if found.line < 0 else part.lines[found.line].pieces(found.start, found.end)

    def row_of(self, part: int, line: int, offset: int) -> int:
        """Return the row of a character of a line."""
        place = bisect_right(self.rows, TextRow(part, line, offset, 1 << 60)) - 1
        return max(0, place)
