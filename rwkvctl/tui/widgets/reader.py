"""Lines to read that scroll, under a title if they have one: for help, and for the details of a row."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rwkvctl.text.sanitize import cell_width, safe_line
from rwkvctl.tui.widgets.strips import Pieces, ruled, strip, theme_of
from rwkvctl.tui.widgets.wrapped_text import breaks, plain_line

HANG: Final = 2
"""Cells by which a line that goes on in the next one is set in."""


def folded(pieces: Pieces, width: int) -> list[Pieces]:
    """Return the same pieces wrapped to as many lines as they need, between words where possible."""
    line = plain_line([(safe_line(text), role) for text, role in pieces])
    if cell_width(line.text) <= width:
        return [line.pieces(0, len(line.text))]
    first, *others = (line.pieces(start, end) for start, end in breaks(line.text, width - HANG))
    return [first, *([(" " * HANG, ""), *other] for other in others)]


class Reading(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines that scroll. With `wraps`, lines that are too long are wrapped; else they are cut."""

    DEFAULT_CSS = "Reading { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("ctrl+u,pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("ctrl+d,pagedown,ctrl+f", "page_down", "Page down", show=False),
        Binding("g,home", "scroll_home", "Top", show=False),
        Binding("G,end", "scroll_end", "End", show=False),
    ]

    def __init__(self, *, id: str, wraps: bool = False) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lines: list[Pieces] = []
        self.title: Pieces = ()
        self.stale, self.wraps = False, wraps
        self._given: list[Pieces] = []

    def show(self, lines: Sequence[Pieces], *, title: Pieces = (), stale: bool = False) -> None:
        """Replace the lines; a title stays where it is when they scroll."""
        if (list(lines), title, stale) != (self._given, self.title, self.stale):
            other = title != self.title
            self._given, self.title, self.stale = list(lines), title, stale
            self._arrange()
            if other:
                self.scroll_home(animate=False)
            self.refresh()

    def _arrange(self) -> None:
        width = self.size.width
        self.lines = self._folded(width)
        if len(self.lines) + bool(self.title) > self.size.height:
            width -= 1  # for the scroll bar, which is not there yet
            self.lines = self._folded(width)
        self.virtual_size = Size(width, len(self.lines) + bool(self.title))

    def _folded(self, width: int) -> list[Pieces]:
        return [row for line in self._given for row in folded(line, width)] if self.wraps else self._given

    def on_resize(self, event: Resize) -> None:
        """Lay out the lines for the new width."""
        self._arrange()

    def render_line(self, y: int) -> Strip:
        width, look = self.scrollable_size.width, theme_of(self)
        if self.title and y == 0:
            return ruled(self.title, width, look, stale=self.stale)
        place = y + self.scroll_offset.y - bool(self.title)
        return strip(self.lines[place] if place < len(self.lines) else [], width, look, stale=self.stale)
