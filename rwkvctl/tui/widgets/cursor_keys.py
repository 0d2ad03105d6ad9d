"""Keys that move a cursor over rows: arrows, vim's, and pages."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.scroll_view import ScrollView


class Moving(ScrollView, inherit_bindings=False):
    """A list with a cursor. Subclasses provide its length and page size, and carry out moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("g,home", "top", "First row", show=False),
        Binding("G,end", "bottom", "Last row", show=False),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False),
        Binding("ctrl+f,pagedown", "page(1)", "Page down", show=False),
        Binding("ctrl+b,pageup", "page(-1)", "Page up", show=False),
    ]
    cursor = 0

    @property
    def count(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    @property
    def page_rows(self) -> int:
        """Return how many rows are visible at once."""
        raise NotImplementedError

    def move_to(self, place: int) -> None:
        """Move the cursor, and scroll it into view."""
        raise NotImplementedError

    def action_move(self, by: int) -> None:
        """Move the cursor down by so many rows; up if negative."""
        self.move_to(self.cursor + by)

    def action_page(self, pages: float) -> None:
        """Move the cursor by pages or fractions of one; up if negative."""
        self.move_to(self.cursor + int(pages * self.page_rows))

    def action_top(self) -> None:
        """Go to the first row."""
        self.move_to(0)

    def action_bottom(self) -> None:
        """Go to the last row."""
        self.move_to(self.count - 1)
