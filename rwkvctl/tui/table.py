"""A table on the Line API: a hundred thousand rows cost what is on the screen.

A changed cell repaints its own rectangle and nothing else. The widget draws and moves; what is shown in which order is
`Listing`'s, which columns fit is `columns`'.
"""

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Generic, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rwkvctl.render import BLANK, Cell, role_of
from rwkvctl.safe import cell_width, fit, safe_line
from rwkvctl.tui.columns import Column, Placed, RowT, fitted
from rwkvctl.tui.listing import Listing, text_of
from rwkvctl.tui.strips import Pieces, look_of, ruled, strip

GUTTER: Final = 1
HOT_S: Final = 1.5
"""For how long a value that changed is bold: one tick of telemetry and a half, so that a running one stays so."""


class Drawn(NamedTuple):
    """A row as it is on the screen."""

    key: str
    cells: tuple[Cell, ...]


NOTHING: Final = Drawn("", ())


class VTable(ScrollView, Generic[RowT]):
    """Rows of any kind in columns, with a cursor, marks, an order and a filter. `empty` is said where there are none."""

    DEFAULT_CSS = """
    VTable { height: auto; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("left", "column(-1)", "Column to the left", show=False),
        Binding("right", "column(1)", "Column to the right", show=False),
        Binding("g,home", "top", "First row", show=False),
        Binding("G,end", "bottom", "Last row", show=False, key_display="G"),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False),
        Binding("ctrl+f,pagedown", "page(1)", "Page down", show=False),
        Binding("ctrl+b,pageup", "page(-1)", "Page up", show=False),
        Binding("space", "mark", "Mark", show=False),
        Binding("ctrl+@,ctrl+space", "mark_range", "Mark up to here", show=False, key_display="^space"),
        Binding("backslash", "unmark", "Clear marks", show=False, key_display="\\"),
        Binding("less_than_sign", "sort_next(-1)", "Sort by the column to the left", show=False, key_display="<"),
        Binding("greater_than_sign", "sort_next(1)", "Sort by the column to the right", show=False, key_display=">"),
        Binding("exclamation_mark", "turn", "Turn the order round", show=False, key_display="!"),
        Binding("i", "every_column", "All columns, or those that fit", show=False),
    ]

    class Opened(Message):
        """The operator chose a row."""

        def __init__(self, table: "VTable[RowT]", key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> "VTable[RowT]":
            """The table, for selectors."""
            return self.table

    def __init__(
        self, columns: Sequence[Column[RowT]], key: Callable[[RowT], str], *, id: str,  # noqa: A002 - Textual's name
        titled: bool = True, empty: str = "", focusable: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(id=id)
        self.listing = Listing(columns, key)
        self.can_focus, self.titled, self.empty = focusable, titled, empty
        self.title: Pieces = ()
        self.stale = self.every = False
        self.cursor, self.at_column, self.left = 0, 0, 0
        self.range_from = -1
        self._placed: list[Placed] = []
        self._drawn: dict[int, Drawn] = {}
        self._hot: dict[tuple[str, int], float] = {}

    # -- what is shown ---------------------------------------------------------------------------------------------

    def show(self, title: str | Pieces, rows: Sequence[RowT], *, stale: bool = False) -> None:
        """Replace the rows; the cursor stays on its row. Only cells that differ are painted."""
        pieces: Pieces = [(title, "title")] if isinstance(title, str) else title
        chosen = self.chosen
        self.listing.replace(rows)
        everything = stale != self.stale
        self.stale = stale
        self._head(pieces)
        self._settle(chosen, everything=everything)

    def put(self, place: int, row: RowT) -> None:
        """Replace one row, by its place in the model."""
        self.listing.put(place, row)
        self._compare()

    @property
    def chosen(self) -> str:
        """The key of the row under the cursor, empty if there is none."""
        return self.listing.key_at(self.cursor)

    @property
    def targets(self) -> list[str]:
        """What a verb acts on: the marked rows, else the one under the cursor."""
        return self.listing.targets(self.cursor)

    @property
    def filter_text(self) -> str:
        """The filter in force."""
        return self.listing.query.text

    def filter(self, text: str) -> None:
        """Show only the rows that pass. Raises ValueError with a sentence for the operator."""
        chosen = self.chosen
        self.listing.filter(text)
        self._settle(chosen)

    def sort(self, column: int, *, descending: bool | None = None) -> None:
        """Order by a column."""
        chosen = self.chosen
        self.listing.sort(column, descending=descending)
        self._settle(chosen, everything=True)

    def copied(self) -> str:
        """What `y` copies: the cell under the cursor, as it is shown but whole."""
        if not self.chosen:
            return ""
        column = self.listing.columns[self.at_column]
        return text_of(column.cell(self.listing.row(self.cursor))).strip()

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """Titles and texts of what passes the filter, in its order: what `x` exports."""
        columns = [column for column in self.listing.columns if not column.live or column.value]
        titles = [column.field for column in columns]
        rows = [self.listing.row(place) for place in range(len(self.listing))]
        return titles, [[safe_line(exported(column, row)) for column in columns] for row in rows]

    # -- drawing ---------------------------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """Lines above the first row."""
        return self.titled + 1

    @property
    def _top(self) -> int:
        return self.scroll_offset.y

    @property
    def _height(self) -> int:
        return max(1, self.size.height - self.head)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Title, column heads and rows; one line for the sentence that there are none."""
        return self.head + max(len(self.listing), bool(self.empty))

    def _head(self, pieces: Pieces) -> None:
        if list(pieces) != list(self.title):
            self.title = list(pieces)
        if self.titled:
            self.refresh(Region(0, 0, self.size.width, 1))

    def _settle(self, chosen: str, *, everything: bool = False) -> None:
        """After a change of order: cursor back on its row, sizes, and a look at what differs on the screen."""
        place = self.listing.place_of(chosen, self.cursor)
        self.cursor = place if place >= 0 else min(self.cursor, max(0, len(self.listing) - 1))
        height = self.head + max(len(self.listing), bool(self.empty))
        if height != self.virtual_size.height:
            self.virtual_size = Size(self.size.width, height)
            everything = True
        if everything:
            self.repaint()
        else:
            self._compare()
        if self.titled:
            self.refresh(Region(0, 0, self.size.width, 1))

    def repaint(self) -> None:
        """Draw everything anew."""
        self._drawn.clear()
        self.refresh()

    def _compare(self) -> None:
        """Repaint what differs from the screen: cells of the same row, or the line of another one."""
        now = time.monotonic()
        for y, before in list(self._drawn.items()):
            after = self._row(self._top + y)
            if after == before:
                continue
            self._drawn[y] = after
            if after.key != before.key or len(after.cells) != len(before.cells):
                self.refresh(Region(0, y + self.head, self.size.width, 1))
                continue
            for placed in self._placed:
                if after.cells[placed.number] != before.cells[placed.number]:
                    self._cell_changed(after.key, placed, y, now)

    def _cell_changed(self, key: str, placed: Placed, y: int, now: float) -> None:
        if not self.listing.columns[placed.number].live:
            if not self._hot:
                self.set_timer(HOT_S, self._cool)
            self._hot[key, placed.number] = now + HOT_S
        self._refresh_cell(placed, y)

    def _refresh_cell(self, placed: Placed, y: int) -> None:
        x = GUTTER + placed.x - self.left
        self.refresh(Region(max(0, x), y + self.head, max(0, placed.width + min(0, x)), 1))

    def _cool(self) -> None:
        """What changed a while ago is plain again."""
        now = time.monotonic()
        cold = {name for name, until in self._hot.items() if until <= now + 0.1}
        self._hot = {name: until for name, until in self._hot.items() if name not in cold}
        for y, drawn in self._drawn.items():
            for placed in self._placed:
                if (drawn.key, placed.number) in cold:
                    self._refresh_cell(placed, y)
        if self._hot:
            self.set_timer(max(0.1, min(self._hot.values()) - now), self._cool)

    def _row(self, place: int) -> Drawn:
        """A row as it should be on the screen."""
        if not 0 <= place < len(self.listing):
            return NOTHING
        row = self.listing.row(place)
        cells = tuple(self._cell(number, row) for number in range(len(self.listing.columns)))
        return Drawn(self.listing.key(row), cells)

    def _cell(self, number: int, row: RowT) -> Cell:
        """A cell of a shown column; columns that are not shown cost nothing."""
        if number not in self._numbers:
            return Cell("")
        cell = self.listing.columns[number].cell(row)
        return Cell(safe_line(text_of(cell)), role_of(cell))

    def _fit(self) -> None:
        self._placed = fitted(self.listing.columns, self.size.width - GUTTER, every=self.every)
        self._numbers = frozenset(placed.number for placed in self._placed)
        last = self._placed[-1]
        self.left = min(self.left, max(0, last.x + last.width + GUTTER - self.size.width))

    _numbers: frozenset[int] = frozenset()

    def on_resize(self, event: Resize) -> None:
        """Other columns may fit now."""
        self._fit()
        self._into_view()
        self.repaint()

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width = self.size.width
        if not self._placed:
            self._fit()
        if y < self.head:
            return self._title_line(width) if self.titled and y == 0 else self._heads(width)
        drawn = self._row(self._top + y - self.head)
        self._drawn[y - self.head] = drawn
        if drawn is NOTHING:
            said = [(" " + self.empty, "dim")] if y == self.head and not len(self.listing) else []
            return strip(said, width, look_of(self))
        return self._line(drawn, self._top + y - self.head, width)

    def _title_line(self, width: int) -> Strip:
        return ruled([*self.title, *self._said()], width, look_of(self), stale=self.stale)

    def _said(self) -> Pieces:
        """Filter, order and marks, as the title says them."""
        listing, said = self.listing, list[tuple[str, str]]()
        if listing.query.tests:
            said += [("  /" + listing.query.text, "accent"), (f"  {len(listing)} of {len(listing.rows)}", "")]
        if listing.marks:
            said.append((f"  {len(listing.marks)} marked", "accent"))
        return said

    def _heads(self, width: int) -> Strip:
        sorts = {column: (turned, number) for number, (column, turned) in enumerate(self.listing.sorts)}
        pieces: list[tuple[str, str]] = []
        for placed in self._placed:
            column = self.listing.columns[placed.number]
            sign = "" if placed.number not in sorts else "▾" if sorts[placed.number][0] else "▴"
            text = aligned(column.title + sign, placed.width, right=column.right)
            first = bool(sign) and sorts[placed.number][1] == 0
            pieces.append((text + " ", "accent" if first else "title"))
        return self._shifted(strip([(" ", ""), *pieces], max(width, self._whole), look_of(self), stale=self.stale), width)

    @property
    def _whole(self) -> int:
        return self._placed[-1].x + self._placed[-1].width + GUTTER

    def _shifted(self, line: Strip, width: int) -> Strip:
        return line.crop(self.left, self.left + width) if line.cell_length > width or self.left else line

    def _line(self, drawn: Drawn, place: int, width: int) -> Strip:
        look, under = look_of(self), place == self.cursor and self.has_focus
        base = look.style("stale") if self.stale else look.style("chosen") if under else look.style("")
        marked = drawn.key in self.listing.marks
        segments = [Segment("*" if marked else " ", look.style("chosen" if under else "accent"))]
        x = 0
        for placed in self._placed:
            column, cell = self.listing.columns[placed.number], drawn.cells[placed.number]
            if placed.x > x:
                segments.append(Segment(" " * (placed.x - x), base))
            text = look.drawn(aligned(fit(cell.text, placed.width, column.cut), placed.width, right=column.right))
            segments.append(Segment(text, self._style(drawn.key, placed.number, cell, under=under)))
            x = placed.x + placed.width
        segments.append(Segment(" " * max(0, width - x - GUTTER), base))
        return self._shifted(Strip(segments, max(width, x + GUTTER)), width)

    def _style(self, key: str, number: int, cell: Cell, *, under: bool) -> Style:
        look = look_of(self)
        if self.stale:
            return look.style("stale")
        if under:
            style = look.style("chosen")
            return style + Style(underline=True) if number == self.at_column and number else style
        return look.style("dim" if cell.text in BLANK else cell.role, hot=(key, number) in self._hot)

    # -- moving ----------------------------------------------------------------------------------------------------

    def _to(self, place: int) -> None:
        """Move the cursor; the lines it leaves and reaches are painted, and the view follows."""
        before, self.cursor = self.cursor, min(max(0, place), max(0, len(self.listing) - 1))
        for y in {before - self._top, self.cursor - self._top}:
            self.refresh(Region(0, y + self.head, self.size.width, 1))
        self._into_view()

    def _into_view(self) -> None:
        top = min(self.cursor, max(self._top, self.cursor - self._height + 1))
        if top != self._top:
            self.scroll_to(y=top, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        self._drawn.clear()
        super().watch_scroll_y(old_value, new_value)

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._to(self.cursor + by)

    def action_page(self, pages: float) -> None:
        """Move by pages."""
        self._to(self.cursor + int(pages * self._height))

    def action_top(self) -> None:
        """Go to the first row."""
        self._to(0)

    def action_bottom(self) -> None:
        """Go to the last row."""
        self._to(len(self.listing) - 1)

    def action_column(self, by: int) -> None:
        """Move to another column: what is copied, and what is seen where not all fit."""
        numbers = [placed.number for placed in self._placed]
        place = numbers.index(self.at_column) if self.at_column in numbers else 0
        self.at_column = numbers[min(max(0, place + by), len(numbers) - 1)]
        placed = next(placed for placed in self._placed if placed.number == self.at_column)
        room = self.size.width - GUTTER
        left = min(max(self.left, placed.x + placed.width - room), placed.x)
        if left != self.left:
            self.left = max(0, left)
            self.refresh()
        else:
            self._to(self.cursor)

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if self.chosen:
            self.post_message(self.Opened(self, self.chosen))

    def action_mark(self) -> None:
        """Mark the row under the cursor and go on to the next."""
        self.range_from = self.cursor
        self.listing.toggle(self.chosen)
        self._head(self.title)
        self._to(self.cursor + 1)

    def action_mark_range(self) -> None:
        """Mark everything between the row that was marked last and the cursor."""
        self.listing.mark_range(self.range_from if self.range_from >= 0 else self.cursor, self.cursor)
        self.refresh()

    def action_unmark(self) -> None:
        """Clear all marks."""
        self.listing.marks.clear()
        self.refresh()

    def action_sort_next(self, by: int) -> None:
        """Order by the next column."""
        numbers = [placed.number for placed in self._placed]
        now = self.listing.sorts[0][0] if self.listing.sorts else -1
        place = numbers.index(now) + by if now in numbers else 0 if by > 0 else len(numbers) - 1
        column = numbers[place % len(numbers)]
        self.sort(column, descending=self.listing.columns[column].right)

    def action_turn(self) -> None:
        """Turn the order round."""
        if self.listing.sorts:
            self.sort(self.listing.sorts[0][0])

    def action_every_column(self) -> None:
        """Show all columns, to be scrolled sideways, or only those that fit."""
        self.every, self.left = not self.every, 0
        self._fit()
        self.repaint()

    def on_focus(self) -> None:
        """The cursor appears."""
        self._to(self.cursor)

    def on_blur(self) -> None:
        """The cursor disappears."""
        self._to(self.cursor)

    def on_click(self, event: Click) -> None:
        """A column's head orders by it; a row is chosen, and opened by the second click."""
        if event.y == self.head - 1:
            for placed in self._placed:
                if placed.x <= event.x - GUTTER + self.left < placed.x + placed.width:
                    self.sort(placed.number)
            return
        place = self._top + event.y - self.head
        if event.y >= self.head and place < len(self.listing):
            again = place == self.cursor and event.chain > 1
            self._to(place)
            if again:
                self.action_open()


def aligned(text: str, width: int, *, right: bool) -> str:
    """A text that fits, in a cell of this width."""
    shown = fit(text, width)
    space = " " * (width - cell_width(shown))
    return space + shown if right else shown + space


def exported(column: Column[RowT], row: RowT) -> str:
    """A value as a file has it: whole, and of a drawn column what it stands for."""
    value = column.value_of(row) if column.live else column.cell(row)
    if isinstance(value, Cell):
        return (value.plain or value.text).strip()
    return "" if value is None else str(value).strip()
