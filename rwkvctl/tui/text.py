"""Lines to read, with what is looked for filtered; for help and for what a command printed in a few lines."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rwkvctl.tui.strips import Pieces, look_of, strip


class Reading(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines that scroll."""

    DEFAULT_CSS = "Reading { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("ctrl+u,pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("ctrl+d,pagedown,ctrl+f", "page_down", "Page down", show=False),
        Binding("g,home", "scroll_home", "Top", show=False),
        Binding("G,end", "scroll_end", "End", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lines: list[Pieces] = []

    def show(self, lines: Sequence[Pieces]) -> None:
        """Replace the lines."""
        if list(lines) != self.lines:
            self.lines = list(lines)
            self.virtual_size = Size(self.scrollable_size.width, len(self.lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line."""
        place = y + self.scroll_offset.y
        return strip(self.lines[place] if place < len(self.lines) else [], self.scrollable_size.width, look_of(self))
