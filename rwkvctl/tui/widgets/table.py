"""A table on the Line API: a hundred thousand rows cost what is on the screen.

A changed cell repaints its own rectangle and nothing else. The widget draws and moves; what is shown in which order is
`Listing`'s, which columns fit is `table_columns`'.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Generic

from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.cli.render import BLANK, Cell, role_of
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.widgets.cursor_keys import Moving
from rwkvctl.tui.widgets.highlight import HIGHLIGHT_S, Highlights
from rwkvctl.tui.widgets.strips import Pieces, ruled, strip, theme_of, unknown_of
from rwkvctl.tui.widgets.table_columns import Column, PlacedColumn, RowT, fitted, text_of
from rwkvctl.tui.widgets.table_paint import GUTTER, NOTHING, DrawnRow, RowStyle, cells, heads
from rwkvctl.tui.widgets.table_rows import Listing
from rwkvctl.tui.widgets.timers import once

LOADING: Final = "loading…"
"""What `empty` says until the rows were fetched for the first time."""

LOOKED_AT: Final = 200
"""Rows in which a value is looked for."""


class VTable(Moving, Generic[RowT]):
    """Rows of any kind in columns, with a cursor, marks, an order and a filter.

    `titled` gives it a rule with its title, `headed` the heads of its columns; `empty` is said where there are no rows.
    """

    DEFAULT_CSS = """
    VTable { height: auto; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("left", "column(-1)", "Column to the left", show=False),
        Binding("right", "column(1)", "Column to the right", show=False),
        Binding("space", "mark", "Mark", show=False),
        Binding("ctrl+@,ctrl+space", "mark_range", "Mark up to here", show=False, key_display="^space"),
        Binding("backslash", "unmark", "Clear marks", show=False, key_display="\\"),
        Binding("less_than_sign", "sort_next(-1)", "Sort by the previous column", show=False, key_display="<"),
        Binding("greater_than_sign", "sort_next(1)", "Sort by the next column", show=False, key_display=">"),
        Binding("exclamation_mark", "turn", "Reverse the order", show=False, key_display="!"),
        Binding("i", "every_column", "Show all columns, or those that fit", show=False),
    ]

    class Opened(Message):
        """Sent when the row of this key is opened."""

        def __init__(self, table: "VTable[Any]", key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> "VTable[Any]":
            """The table that sent the message; Textual matches it with the selectors of `@on`."""
            return self.table

    class Moved(Opened):
        """Sent when another row is under the cursor; the key is empty if there is none."""

    class NoRow(Opened):
        """Sent when a key that acts on a row was pressed and there is none; the key is empty."""

    def __init__(
        self, columns: Sequence[Column[RowT]], key: Callable[[RowT], str], *, id: str,  # noqa: A002 - Textual's name
        titled: bool = True, headed: bool = True, empty: str = "", focusable: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(id=id)
        self.listing = Listing(columns, key)
        self.can_focus, self.titled, self.headed, self._empty = focusable, titled, headed, empty
        self.title: Pieces = ()
        self.stale = self.every = False
        self.at_column, self.left = 0, 0
        self.range_from = -1
        self._under = ""
        self._titled: list[tuple[str, str]] = []
        self._placed: list[PlacedColumn] = []
        self._numbers: frozenset[int] = frozenset()
        self._fitted_to = -1
        self._valueless: frozenset[int] | None = None
        """Columns that have no value, and none that had one since the width was another; None before there are rows."""
        self._drawn: dict[int, DrawnRow] = {}
        self._highlights: Highlights[tuple[str, int]] = Highlights()

    # -- what is shown ---------------------------------------------------------------------------------------------

    def show(self, title: str | Pieces, rows: Sequence[RowT], *, stale: bool = False) -> None:
        """Replace the rows; the cursor stays on its row. Only cells that differ are painted."""
        chosen, everything = self.chosen, stale != self.stale
        self.title = [(title, "title")] if isinstance(title, str) else list(title)
        self.stale = stale
        self.listing.replace(rows)
        self._settle(chosen, everything=everything)

    def put(self, place: int, row: RowT) -> None:
        """Replace one row, by its place in the model."""
        self.listing.put(place, row)
        self._compare()

    @property
    def chosen(self) -> str:
        """Return the key of the row under the cursor; empty if there is none."""
        return self.listing.key_at(self.cursor)

    @property
    def targets(self) -> list[str]:
        """Return the keys that a verb acts on: the marked rows, else the one under the cursor."""
        return self.listing.targets(self.cursor)

    @property
    def is_loading(self) -> bool:
        """Return whether there are no rows because none were fetched yet."""
        return not self.listing.rows and not self.stale and self.empty == LOADING

    @property
    def why_no_row(self) -> str:
        """Return why no row is under the cursor, as a sentence for the operator who pressed a key that needs one."""
        if self.is_loading:
            return "The list is still loading: press the key again when its rows are shown."
        if self.stale and not self.listing.rows:
            return f"Nothing is selected: the rows are {unknown_of(self)}."
        if self.filter_text and self.listing.rows:
            return f"Nothing is selected: no row passes the filter {self.filter_text}."
        return f"Nothing is selected: {self.empty or 'this list has no rows'}."

    @property
    def filter_text(self) -> str:
        """Return the text of the filter in force; empty if there is none."""
        return self.listing.query.text

    def filter(self, text: str) -> None:
        """Show only the rows that pass. Raises ValueError with a sentence for the operator."""
        chosen = self.chosen
        self.listing.filter(text)
        self._settle(chosen)

    def sort(self, column: int, *, descending: bool | None = None) -> None:
        """Sort by a column; without `descending` in its natural direction, or reversed if it is the one sorted by."""
        chosen = self.chosen
        self.listing.sort(column, descending=descending)
        self._settle(chosen, everything=True)

    def copied(self) -> str:
        """Return what `y` copies: the cell under the cursor, not shortened."""
        if not self.chosen:
            return ""
        column = self.listing.columns[self.at_column]
        return text_of(column.cell(self.listing.row(self.cursor))).strip()

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """Return what `x` exports: titles and texts of the rows that pass the filter, in their order."""
        columns = [column for column in self.listing.columns if not column.live or column.value]
        titles = [column.field for column in columns]
        rows = [self.listing.row(place) for place in range(len(self.listing))]
        return titles, [[safe_line(column.exported(row)) for column in columns] for row in rows]

    # -- drawing ---------------------------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """Return the number of lines above the first row: title and column heads."""
        return self.titled + self.headed

    @property
    def _top(self) -> int:
        return self.scroll_offset.y

    @property
    def page_rows(self) -> int:
        """Return how many rows are visible at once."""
        return max(1, self.size.height - self.head)

    @property
    def count(self) -> int:
        """Return how many rows pass the filter."""
        return len(self.listing)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Title, column heads and rows; one line for the sentence that there are none, or that none is known."""
        return self.head + max(len(self.listing), bool(self.empty or self.stale))

    def _retitle(self) -> None:
        """Redraw the title if its text has changed."""
        said = [*self.title, *self._said()]
        if self.titled and said != self._titled:
            self._titled = said
            self.refresh(Region(0, 0, self.scrollable_size.width, 1))

    def _settle(self, chosen: str, *, everything: bool = False) -> None:
        """After a change of order put the cursor back on its row, update sizes, and repaint what differs."""
        everything = self._refit() or everything
        place = self.listing.place_of(chosen, self.cursor) if self.can_focus else 0  # without a cursor the top stays
        self.cursor = place if place >= 0 else min(self.cursor, max(0, len(self.listing) - 1))
        height = self.head + max(len(self.listing), bool(self.empty or self.stale))
        if height != self.virtual_size.height:
            self._extend(Size(self.scrollable_size.width, height))
            everything = True
        if everything:
            self.repaint()
        else:
            self._compare()
        self._retitle()
        self._tell_moved()
        if not self.can_focus:
            self._into_view()

    def _tell_moved(self) -> None:
        """Post Moved if another row is under the cursor."""
        if self._under != self.chosen:
            self._under = self.chosen
            self.post_message(self.Moved(self, self._under))

    def _extend(self, size: Size) -> None:
        """Adapt to another number of rows; the layout changes only if the height depends on the rows."""
        if self.styles.height is None or self.styles.height.is_auto:
            self.virtual_size = size
        else:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    @property
    def empty(self) -> str:
        """Return the text that is shown if there are no rows."""
        return self._empty

    @empty.setter
    def empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            self.repaint()

    def repaint(self) -> None:
        """Drop the drawn rows, and draw the whole table anew."""
        self._drawn.clear()
        self.refresh()

    def _compare(self) -> None:
        """Repaint what differs from the screen: cells if a line shows the same row, else the whole line."""
        now = time.monotonic()
        for y, before in list(self._drawn.items()):
            after = self._row(self._top + y, before)
            if after is before:
                continue
            self._drawn[y] = after
            if after.key != before.key or len(after.cells) != len(before.cells):
                self.refresh(Region(0, y + self.head, self.scrollable_size.width, 1))
                continue
            changed = [p for p in self._placed if after.cells[p.number] != before.cells[p.number]]
            for placed in changed:
                self._touch(after.key, placed.number, now)
            self._refresh_cells(changed, y)

    def _touch(self, key: str, number: int, now: float) -> None:
        """Highlight a changed value, unless it changes all the time."""
        if not self.listing.columns[number].live:
            if not self._highlights:
                once(self, HIGHLIGHT_S, self._cool)
            self._highlights.touch((key, number), now)

    def _refresh_cells(self, changed: Sequence[PlacedColumn], y: int) -> None:
        """Paint these cells of a line, and the gaps between them."""
        if changed:
            start = max(0, GUTTER + changed[0].x - self.left)
            end = GUTTER + changed[-1].x + changed[-1].width - self.left
            self.refresh(Region(start, y + self.head, max(0, end - start), 1))

    def _cool(self) -> None:
        """Draw values that are no longer highlighted in their plain style."""
        now = time.monotonic()
        cold = self._highlights.cool(now)
        for y, drawn in self._drawn.items():
            self._refresh_cells([placed for placed in self._placed if (drawn.key, placed.number) in cold], y)
        if self._highlights:
            once(self, self._highlights.left_s(now), self._cool)

    def _row(self, place: int, before: DrawnRow = NOTHING) -> DrawnRow:
        """Return a row as it should be drawn; `before` if that shows an equal row."""
        if not 0 <= place < len(self.listing):
            return NOTHING
        row = self.listing.row(place)
        if before is not NOTHING and (row is before.row or row == before.row):
            return before
        found = tuple(self._cell(number, row) for number in range(len(self.listing.columns)))
        return DrawnRow(self.listing.key(row), found, row)

    def _cell(self, number: int, row: RowT) -> Cell:
        """Return a cell of a shown column; a column that is not shown is not computed."""
        if number not in self._numbers:
            return Cell("")
        cell = self.listing.columns[number].cell(row)
        return Cell(safe_line(text_of(cell)), role_of(cell))

    def _fit(self) -> None:
        self._drawn.clear()
        self._fitted_to = self.scrollable_size.width
        self._valueless = self._without_values(range(len(self.listing.columns)))
        self._arrange_columns()

    def _arrange_columns(self) -> None:
        room = self.scrollable_size.width - GUTTER
        self._placed = fitted(self.listing.columns, room, every=self.every, empty=self._valueless or ())
        self._numbers = frozenset(placed.number for placed in self._placed)
        last = self._placed[-1]
        self.left = min(self.left, max(0, last.x + last.width + GUTTER - self.scrollable_size.width))

    def _without_values(self, numbers: Iterable[int]) -> frozenset[int] | None:
        """Those of these columns that may go and have no value in any of the first rows; of rows that are not held in
        memory none is read for that."""
        known, rows = self.listing.columns, self.listing.rows
        if not rows:
            return None
        if not isinstance(rows, list):
            return frozenset()
        drawn = {number: known[number].cell for number in numbers if known[number].rank}
        return frozenset(
            number for number, cell in drawn.items() if all(text_of(cell(row)) in BLANK for row in rows[:LOOKED_AT])
        )

    def _refit(self) -> bool:
        """The first rows decide which columns without a value go, whether they or the first frame came first. A column
        that has a value later comes, and stays while the size does. Returns whether any came or went."""
        if self._fitted_to < 0:
            return False
        before = self._valueless
        found = self._without_values(range(len(self.listing.columns)) if before is None else before)
        if found is None or found == before:
            return False
        self._valueless = found
        self._arrange_columns()
        return True

    def on_resize(self, event: Resize) -> None:
        """Keep the cursor in view."""
        self._into_view()

    def render_line(self, y: int) -> Strip:
        """Draw line `y`: the title, the column heads, or a row; the first line below says so if there are no rows."""
        width = self.scrollable_size.width
        if width != self._fitted_to:
            self._fit()
        if y < self.head:
            return self._title_line(width) if self.titled and y == 0 else self._heads(width)
        drawn = self._drawn.get(y - self.head)
        if drawn is None:
            drawn = self._drawn[y - self.head] = self._row(self._top + y - self.head)
        if drawn is NOTHING:
            text = unknown_of(self) if self.stale else self.empty
            said = [(" " + text, "dim")] if y == self.head and not len(self.listing) else []
            return strip(said, width, theme_of(self))
        return self._line(drawn, self._top + y - self.head, width)

    def _title_line(self, width: int) -> Strip:
        self._titled = [*self.title, *self._said()]
        return ruled(self._titled, width, theme_of(self), stale=self.stale)

    def _said(self) -> Pieces:
        """Return the title's notes: since when the rows are stale, filter, order and marks."""
        listing, said = self.listing, list[tuple[str, str]]()
        if self.stale and self.title:
            said.append((f" · {unknown_of(self)}", "warn"))
        if listing.query.tests:
            said += [("  /" + listing.query.text, "accent"), (f"  {len(listing)} of {len(listing.rows)}", "")]
        if listing.marks:
            said.append((f"  {len(listing.marks)} marked", "accent"))
        return said

    def _heads(self, width: int) -> Strip:
        pieces = heads(self.listing.columns, self._placed, self.listing.sorts)
        line = strip(pieces, max(width, self._whole), theme_of(self), stale=self.stale)
        return self._shifted(line, width)

    @property
    def _whole(self) -> int:
        return self._placed[-1].x + self._placed[-1].width + GUTTER

    def _shifted(self, line: Strip, width: int) -> Strip:
        return line.crop(self.left, self.left + width) if line.cell_length > width or self.left else line

    def _line(self, drawn: DrawnRow, place: int, width: int) -> Strip:
        under = place == self.cursor and self.has_focus
        ink = RowStyle(
            theme_of(self), stale=self.stale, under=under, marked=drawn.key in self.listing.marks,
            at_column=self.at_column,
            highlighted=frozenset(one.number for one in self._placed if (drawn.key, one.number) in self._highlights),
        )  # fmt: skip
        return self._shifted(cells(drawn, self.listing.columns, self._placed, ink, width), width)

    # -- moving ----------------------------------------------------------------------------------------------------

    def move_to(self, place: int) -> None:
        """Move the cursor; the lines it leaves and reaches are painted, and the view follows."""
        before, self.cursor = self.cursor, min(max(0, place), max(0, len(self.listing) - 1))
        for y in {before - self._top, self.cursor - self._top}:
            self.refresh(Region(0, y + self.head, self.scrollable_size.width, 1))
        self._into_view()
        self._tell_moved()

    def _into_view(self) -> None:
        top = min(self.cursor, max(self._top, self.cursor - self.page_rows + 1))
        if top != self._top:
            self.scroll_to(y=top, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        self._drawn.clear()
        super().watch_scroll_y(old_value, new_value)

    def action_column(self, by: int) -> None:
        """Move to another column: what is copied, and what is seen where not all fit."""
        numbers = [placed.number for placed in self._placed]
        place = numbers.index(self.at_column) if self.at_column in numbers else 0
        self.at_column = numbers[min(max(0, place + by), len(numbers) - 1)]
        placed = next(placed for placed in self._placed if placed.number == self.at_column)
        room = self.scrollable_size.width - GUTTER
        left = min(max(self.left, placed.x + placed.width - room), placed.x)
        if left != self.left:
            self.left = max(0, left)
            self.refresh()
        else:
            self.move_to(self.cursor)

    def action_open(self) -> None:
        """Post Opened for the row under the cursor, or NoRow if there is none."""
        self.post_message((self.Opened if self.chosen else self.NoRow)(self, self.chosen))

    def action_mark(self) -> None:
        """Mark the row under the cursor and move to the next; post NoRow if there is none."""
        if not self.chosen:
            self.post_message(self.NoRow(self, ""))
            return
        self.range_from = self.cursor
        self.listing.toggle(self.chosen)
        self._retitle()
        self.move_to(self.cursor + 1)

    def action_mark_range(self) -> None:
        """Mark everything between the row that was marked last and the cursor."""
        self.listing.mark_range(self.range_from if self.range_from >= 0 else self.cursor, self.cursor)
        self.refresh()

    def action_unmark(self) -> None:
        self.listing.marks.clear()
        self.refresh()

    def action_sort_next(self, by: int) -> None:
        """Sort by the next visible column (`by` 1) or the previous one (-1), numbers descending."""
        numbers = [placed.number for placed in self._placed]
        now = self.listing.sorts[0][0] if self.listing.sorts else -1
        place = numbers.index(now) + by if now in numbers else 0 if by > 0 else len(numbers) - 1
        column = numbers[place % len(numbers)]
        self.sort(column, descending=self.listing.columns[column].right)

    def action_turn(self) -> None:
        """Reverse the order of the column that is sorted by, if there is one."""
        if self.listing.sorts:
            self.sort(self.listing.sorts[0][0])

    def action_every_column(self) -> None:
        """Show all columns, to be scrolled sideways, or only those that fit."""
        self.every, self.left = not self.every, 0
        self._fit()
        self.repaint()

    def watch_has_focus(self, value: bool) -> None:
        """Redraw the cursor's row, since the cursor shows only while the table has the focus."""
        super().watch_has_focus(value)
        self.move_to(self.cursor)

    def on_click(self, event: Click) -> None:
        """Sort by the column whose head was clicked; select a row, and open it on the second click."""
        if self.headed and event.y == self.head - 1:
            for placed in self._placed:
                if placed.x <= event.x - GUTTER + self.left < placed.x + placed.width:
                    self.sort(placed.number)
            return
        place = self._top + event.y - self.head
        if event.y >= self.head and place < len(self.listing):
            again = place == self.cursor and event.chain > 1
            self.move_to(place)
            if again:
                self.action_open()
