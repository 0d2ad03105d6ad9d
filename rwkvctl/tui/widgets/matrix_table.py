"""A table with a cursor on a cell, for a matrix: the first columns stay, the others move past them whole."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.strip import Strip

from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.widgets.strips import Pieces, theme_of
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.table_columns import GAP, Column, PlacedColumn, RowT, placed, whole_text_of
from rwkvctl.tui.widgets.table_paint import GUTTER, DrawnRow, RowStyle, cells

NOTHING_THERE: Final = frozenset({"·", "–", "…"})
"""Cells that an exported file leaves empty."""


class MatrixTable(VTable[RowT]):
    """A table whose columns may be replaced; cursor and order follow their columns by name. `fixed` columns never
    scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "intervals", "± intervals", show=False),
        Binding("shift+left", "column(-8)", "Columns to the left", show=False),
        Binding("shift+right", "column(8)", "Columns to the right", show=False),
    ]
    fixed = 1
    first = 0
    """How many of the moving columns lie to the left of what is seen."""

    class Intervals(VTable.Opened):
        """Sent to show intervals, or to hide them again."""

    class Filtered(VTable.Opened):
        """Sent when a filter has changed which rows are shown."""

    def action_intervals(self) -> None:
        """Post Intervals, which asks the screen to show or hide intervals."""
        self.post_message(self.Intervals(self, self.chosen))

    @property
    def at_field(self) -> str:
        """Return the name of the column under the cursor; empty if there are only fixed ones."""
        known = self.listing.columns
        return known[self.at_column].field if self.fixed <= self.at_column < len(known) else ""

    def set_columns(self, columns: Sequence[Column[RowT]]) -> None:
        """Replace the columns; the order, the filter and the column under the cursor stay."""
        listing, at = self.listing, self.at_field
        before = [(listing.columns[number].field, turned) for number, turned in listing.sorts]
        listing.columns = list(columns)
        fields = {column.field: number for number, column in enumerate(columns)}
        listing.sorts = [(fields[name], turned) for name, turned in before if name in fields]
        self.at_column = fields.get(at, min(self.fixed, len(columns) - 1))
        self._fit()
        listing.filter(listing.query.text)
        listing.arrange()
        self._settle(self.chosen, everything=True)

    def called(self, title: str) -> None:
        """Set the table's title, and redraw it if it is another one."""
        self.title = [(title, "title")]
        self._retitle()

    def filter(self, text: str) -> None:
        """Filter as every table does, and post Filtered."""
        super().filter(text)
        self.post_message(self.Filtered(self, self.chosen))

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """What `x` exports: cells as they are shown, without their marks; nothing where there is nothing."""
        rows = [self.listing.row(place) for place in range(len(self.listing))]
        texts = [
            [safe_line(whole_text_of(column.cell(row))).strip() for column in self.listing.columns] for row in rows
        ]
        return [column.field for column in self.listing.columns], [
            ["" if text in NOTHING_THERE else text for text in line] for line in texts
        ]

    def copied(self) -> str:
        """Return the cell under the cursor, without its mark."""
        cell = self.listing.columns[self.at_column].cell(self.listing.row(self.cursor)) if self.chosen else ""
        return whole_text_of(cell).strip()

    def _fit(self) -> None:
        self._drawn.clear()
        self._fitted_to = self.scrollable_size.width
        room = self.scrollable_size.width - GUTTER
        self.first = window(self.listing.columns, self.fixed, self.first, self.at_column, room)
        self._placed = seen(self.listing.columns, self.fixed, self.first, room)
        self._numbers = frozenset(one.number for one in self._placed)

    def _refit(self) -> bool:
        """Keep columns without values, since the cursor can move to any column."""
        return False

    def _line(self, drawn: DrawnRow, place: int, width: int) -> Strip:
        under = place == self.cursor and self.has_focus
        ink = RowStyle(theme_of(self), stale=self.stale, under=under, marked=drawn.key in self.listing.marks,
                  at_column=self.at_column, cellwise=True)  # fmt: skip
        return cells(drawn, self.listing.columns, self._placed, ink, width)

    def _said(self) -> Pieces:
        """Return how many columns there are besides the visible ones."""
        every, here = len(self.listing.columns) - self.fixed, len(self._placed) - self.fixed
        more = [(f"  {self.first + 1}–{self.first + here} of {every} →", "accent")] if every > here > 0 else []
        return [*super()._said(), *more]

    def action_column(self, by: int) -> None:
        """Move to another column; the view follows."""
        last = len(self.listing.columns) - 1
        self.at_column = min(max(self.fixed, self.at_column + by), last) if last >= self.fixed else 0
        room = self.scrollable_size.width - GUTTER
        if window(self.listing.columns, self.fixed, self.first, self.at_column, room) != self.first:
            self._fit()
            self.refresh()
        self.move_to(self.cursor)
        self.post_message(self.Moved(self, self.chosen))

    def on_click(self, event: Click) -> None:
        """Move the cursor to the column that was clicked."""
        x = event.x - GUTTER
        hit = next((one.number for one in self._placed if one.x <= x < one.x + one.width), self.at_column)
        if event.y >= self.head and hit >= self.fixed:
            self.action_column(hit - self.at_column)


def exported(column: Column[RowT], row: RowT) -> str:
    """Return a cell's whole text for an export; empty if it only says that there is no value."""
    text = safe_line(whole_text_of(column.cell(row))).strip()
    return "" if text in NOTHING_THERE else text


def window(columns: Sequence[Column[RowT]], fixed: int, first: int, at: int, room: int) -> int:
    """Return the smallest number of moving columns to skip on the left so that the one at the cursor is visible."""
    first = max(0, min(first, len(columns) - fixed - 1, at - fixed))
    while first < at - fixed and all(one.number != at for one in seen(columns, fixed, first, room)):
        first += 1
    return first


def seen(columns: Sequence[Column[RowT]], fixed: int, first: int, room: int) -> list[PlacedColumn]:
    """Return the fixed columns, then as many of the moving ones as there is room for."""
    kept = list(range(min(fixed, len(columns))))
    used = sum(columns[number].width + GAP for number in kept)
    for number in range(fixed + first, len(columns)):
        used += columns[number].width + GAP
        if used - GAP > room and number > fixed + first:
            break
        kept.append(number)
    return placed(kept, [columns[number].width for number in kept])
