"""Lines of pieces that are set whole, and painted only where they differ."""

from collections.abc import Sequence

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.tui.widgets.strips import Pieces, ruled, strip, theme_of


class Lines(Widget):
    """Some lines. With a title they stand under a rule; `grows` makes it as high as its lines."""

    DEFAULT_CSS = "Lines { height: 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None, grows: bool = False) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self.lines: list[list[tuple[str, str]]] = []
        self.title: list[tuple[str, str]] = []
        self.stale, self.grows = False, grows
        if grows:
            self.styles.height = "auto"

    def show(self, lines: Sequence[Pieces], *, title: Pieces = (), stale: bool = False) -> None:
        """Replace the title and the lines, and redraw only those that differ."""
        before = [self.title, *self.lines]
        self.title, self.lines = list(title), [list(line) for line in lines]
        after = [self.title, *self.lines]
        if stale != self.stale or len(before) != len(after) or bool(self.title) != bool(before[0]):
            self.stale = stale
            self.refresh(layout=self.grows and len(before) != len(after))
            return
        for y, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self.refresh(Region(0, max(0, y - (not self.title)), self.size.width, 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One row a line, and one for the title."""
        return len(self.lines) + bool(self.title)

    def render_line(self, y: int) -> Strip:
        width, look = self.size.width, theme_of(self)
        if self.title and y == 0:
            return ruled(self.title, width, look, stale=self.stale)
        y -= bool(self.title)
        return strip(self.lines[y] if y < len(self.lines) else [], width, look, stale=self.stale)
