"""Pieces of text with roles, and the strips of cells that they become. No markup is ever parsed here."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.text.sanitize import cell_width, end_of_piece, fit, safe_line
from rwkvctl.tui.widgets.theme import THEMES, ConsoleTheme

Pieces = Sequence[tuple[str, str]]
"""Texts with their roles."""

DEFAULT: Final = THEMES["dark"]


def theme_of(widget: Widget) -> ConsoleTheme:
    """Return the look of the widget's app; the dark one if the app has none."""
    return getattr(widget.app, "look", DEFAULT)


def unknown_of(widget: Widget) -> str:
    """Return the note on a stale list: since when its state is not known."""
    return getattr(getattr(widget.app, "state", None), "unknown", "") or "not known"


def strip(pieces: Iterable[tuple[str, str]], width: int, look: ConsoleTheme = DEFAULT, *, stale: bool = False) -> Strip:
    """One line of exactly `width` cells; what is too long ends in `…`."""
    segments, left = list[Segment](), width
    for text, role in pieces:
        shown = look.drawn(fit(safe_line(text), left))
        segments.append(Segment(shown, look.style("stale" if stale else role)))
        left -= cell_width(shown)
        if left <= 0:
            break
    segments.append(Segment(" " * max(0, left), look.style("")))
    return Strip(segments, width)


def ruled(pieces: Pieces, width: int, look: ConsoleTheme = DEFAULT, *, stale: bool = False) -> Strip:
    """Return a title in a rule: `─ Running 6 ─────`."""
    taken = sum(cell_width(safe_line(text)) for text, _ in pieces)
    line = [("─ ", "rule"), *pieces, (" " + "─" * max(0, width - taken - 3), "rule")]
    return strip(line, width, look, stale=stale)


def wrapped(pieces: Pieces, width: int) -> list[Pieces]:
    """The same pieces in as many lines as they need, cut between characters."""
    lines: list[list[tuple[str, str]]] = [[]]
    left = width
    for text, role in pieces:
        start = 0
        while start < len(text):
            end = end_of_piece(text, start, left)
            if end == start and left == width:
                end += 1  # a wide character in one column: let it be cut when it is drawn
            if part := text[start:end]:
                lines[-1].append((part, role))
            start, left = end, left - cell_width(part)
            if start < len(text) or left <= 0:
                lines.append([])
                left = width
    return [line for line in lines if line] or [[("", "")]]


def lit(found: Pieces, needle: re.Pattern[str]) -> Pieces:
    """The same pieces with what was searched for standing out."""
    shown: list[tuple[str, str]] = []
    for text, role in found:
        start = 0
        for match in needle.finditer(text):
            if match.end() > match.start():
                shown += [(text[start : match.start()], role), (match.group(), "badge")]
                start = match.end()
        shown.append((text[start:], role))
    return [piece for piece in shown if piece[0]]
