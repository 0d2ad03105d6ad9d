"""Widgets that draw lines of safe text and nothing else: no markup is ever parsed, no motion, no blinking."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.render import BLANK, Cell, Layout, Table, layout, role_of, text_of
from rwkvctl.safe import cell_width, fit, safe_line, safe_text, take

STYLES: Final[dict[str, Style]] = {
    "": Style.parse("#d8dee4"),
    "ok": Style.parse("#2fb98a"),
    "warn": Style.parse("#e69f00"),
    "bad": Style.parse("#e8743b"),
    "info": Style.parse("#56b4e9"),
    "dim": Style.parse("#7f8c98"),
    "bold": Style.parse("bold #ffffff"),
    "title": Style.parse("bold #9fb3c8"),
}
CHOSEN: Final = Style.parse("#0b0f14 on #56b4e9")
STALE: Final = Style.parse("#55606b")
LINES_KEPT: Final = 5000

Pieces = Sequence[tuple[str, str]]
"""Texts with their roles."""


def strip(pieces: Pieces, width: int, *, stale: bool = False, chosen: bool = False) -> Strip:
    """One line of exactly `width` cells; what is too long ends in `…`."""
    segments, left = [], width
    for text, role in pieces:
        shown = fit(safe_line(text), left)
        style = STALE if stale else CHOSEN if chosen else STYLES[role]
        segments.append(Segment(shown, style))
        left -= cell_width(shown)
        if left <= 0:
            break
    segments.append(Segment(" " * max(0, left), CHOSEN if chosen and not stale else None))
    return Strip(segments, width)


class Lines(Widget):
    """A few lines of pieces, set whole."""

    stale = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self.lines: list[Pieces] = []

    def show(self, lines: Sequence[Pieces], *, stale: bool = False) -> None:
        """Replace the lines; draws only if something differs."""
        shown = [list(line) for line in lines]
        if shown != self.lines or stale != self.stale:
            self.lines, self.stale = list(shown), stale
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if y >= len(self.lines):
            return Strip.blank(self.size.width)
        return strip(self.lines[y], self.size.width, stale=self.stale)


class Grid(Widget):
    """A titled table. With `can_focus` it has a cursor; the row under it is what keys act on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("enter", "open", "Open"),
    ]
    DEFAULT_CSS = "Grid { height: auto; }"

    class Opened(Message):
        """The operator chose a row."""

        def __init__(self, grid: "Grid", key: str) -> None:
            super().__init__()
            self.grid, self.key = grid, key

    def __init__(self, *, id: str, focusable: bool = False, ruled: bool = True) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.can_focus, self.ruled = focusable, ruled
        self.title, self.stale = "", False
        self.table, self.keys = Table([], []), list[str]()
        self.cells: list[list[Cell]] = []
        self.fitted: tuple[int, Layout] = (-1, Layout([], [], ""))
        self.cursor, self.top = 0, 0

    @property
    def chosen(self) -> str:
        """The key of the row under the cursor, empty if there is none."""
        return self.keys[self.cursor] if self.cursor < len(self.keys) else ""

    def show(self, title: str, table: Table, keys: Sequence[str] = (), *, stale: bool = False) -> None:
        """Replace the rows; the cursor stays on its key."""
        if (title, table, list(keys), stale) == (self.title, self.table, self.keys, self.stale):
            return
        before, grown = self.chosen, len(table.rows) != len(self.table.rows)
        self.title, self.table, self.keys, self.stale = title, table, list(keys), stale
        self.cells = [[Cell(safe_line(text_of(cell)), role_of(cell)) for cell in row] for row in table.rows]
        self.fitted = (-1, Layout([], [], ""))
        self.cursor = self.keys.index(before) if before in self.keys else min(self.cursor, max(0, len(self.keys) - 1))
        self.refresh(layout=grown)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.ruled + 1 + len(self.table.rows)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.ruled and y == 0:
            title = f"─ {self.title} "
            return strip([(title, "title"), ("─" * (width - cell_width(title)), "dim")], width, stale=self.stale)
        y -= self.ruled
        if not self.table.rows:
            return strip([(f" {self.table.empty}" if y == 0 else "", "dim")], width, stale=self.stale)
        self.top = self._top()
        place = self.top + y - 1
        if place >= len(self.table.rows):
            return Strip.blank(width)
        chosen = self.has_focus and place == self.cursor and y > 0
        return strip(self._row(place if y else -1), width, stale=self.stale, chosen=chosen)

    def _top(self) -> int:
        room = max(1, self.size.height - self.ruled - 1)
        return min(max(self.top, self.cursor - room + 1), self.cursor, max(0, len(self.table.rows) - room))

    def _row(self, place: int) -> Pieces:
        """The pieces of a row; -1 is the titles."""
        columns, room = self.table.columns, self.size.width - 1
        if self.fitted[0] != room:
            self.fitted = (room, layout(columns, self.cells, room))
        kept, widths, gap = self.fitted[1]
        row = [Cell(column.title, "dim") for column in columns] if place < 0 else self.cells[place]
        pieces = [(" ", "")]
        for i, width in zip(kept, widths, strict=True):
            text = fit(row[i].text, width, columns[i].cut or "end")
            space = " " * (width - cell_width(text))
            role = "dim" if text in BLANK else row[i].role
            pieces.append((space + text if columns[i].right else text + space, role))
            pieces.append((gap, ""))
        return pieces[:-1]

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(0, self.cursor + by), max(0, len(self.keys) - 1))
        self.refresh()

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if self.chosen:
            self.post_message(self.Opened(self, self.chosen))

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        place = self.top + event.y - self.ruled - 1
        if self.can_focus and 0 <= place < len(self.keys):
            self.cursor = place
            self.refresh()


class LogView(Widget):
    """The end of a log. Scrolling up stops following; End follows again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(1)", "Up", show=False),
        Binding("down,j", "scroll(-1)", "Down", show=False),
        Binding("pageup", "scroll(10)", "Page up", show=False),
        Binding("pagedown", "scroll(-10)", "Page down", show=False),
        Binding("end", "follow", "Follow", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.can_focus = True
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.back = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        """Append a piece of a log, which may end within a line."""
        *whole, self._rest = (self._rest + text).split("\n")
        self.lines.extend(safe_text(line).expandtabs(4) for line in whole)
        if self.back:
            self.back = min(self.back + len(whole), len(self.lines))
        self.refresh()

    def clear(self) -> None:
        """Forget everything."""
        self.lines.clear()
        self.back, self._rest = 0, ""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if y == 0:
            title = "─ log · following " if not self.back else f"─ log · {self.back} lines below (End follows) "
            return strip([(title, "title"), ("─" * (width - cell_width(title)), "dim")], width)
        place = len(self.lines) - self.back - (height - 1) + y - 1
        if len(self.lines) < height - 1:
            place = y - 1
        if not 0 <= place < len(self.lines):
            return Strip.blank(width)
        return strip([(" " + take(self.lines[place], width), "")], width)

    def action_scroll(self, by: int) -> None:
        """Go back (or forth) by lines."""
        most = max(0, len(self.lines) - (self.size.height - 1))
        self.back = min(max(0, self.back + by), most)
        self.refresh()

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.back = 0
        self.refresh()
