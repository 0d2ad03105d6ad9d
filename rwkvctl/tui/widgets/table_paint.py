"""Draws lines of a table: the heads of its columns, and rows. Pure."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rwkvctl.cli.render import BLANK, Cell, short_model
from rwkvctl.text.sanitize import cell_width, fit
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column, PlacedColumn
from rwkvctl.tui.widgets.theme import ConsoleTheme

GUTTER: Final = 1
"""The cell left of every row, where its mark stands."""


class DrawnRow(NamedTuple):
    """A row's drawn cells and the row object itself; while the object is the same, the cells are valid."""

    key: str
    cells: tuple[Cell, ...]
    row: object = None


NOTHING: Final = DrawnRow("", ())


class RowStyle(NamedTuple):
    """How a row is drawn: whether the picture is stale, the cursor lies on it, it is marked; which columns are
    highlighted. `cellwise`: the cursor is a cell, and the row's name shows which row it is in."""

    look: ConsoleTheme
    stale: bool = False
    under: bool = False
    marked: bool = False
    at_column: int = 0
    highlighted: frozenset[int] = frozenset()
    cellwise: bool = False

    @property
    def base(self) -> Style:
        """Return the style of the gaps between cells: stale, the row cursor, or plain."""
        return self.look.style("stale" if self.stale else "chosen" if self.under and not self.cellwise else "")

    def style(self, number: int, cell: Cell) -> Style:
        """Return the style of a cell by its column number: cursor and stale rows override the cell's own role."""
        if self.stale:
            return self.base
        if self.under and self.cellwise and number in {0, self.at_column}:
            return self.look.style("chosen")
        if self.under and not self.cellwise:
            return self.base + Style(underline=True) if number == self.at_column and number else self.base
        return self.look.style("dim" if cell.text in BLANK else cell.role, highlighted=number in self.highlighted)


def heads(columns: Sequence[Column[Any]], shown: Sequence[PlacedColumn], sorts: Sequence[tuple[int, bool]]) -> Pieces:
    """Return the titles of columns; those that are sorted by have a sign, the first one a colour."""
    order = {column: (turned, number) for number, (column, turned) in enumerate(sorts)}
    pieces, x = [(" " * GUTTER, "")], 0
    for placed in shown:
        column = columns[placed.number]
        turned, number = order.get(placed.number, (False, -1))
        title = column.title + ("" if number < 0 else "▾" if turned else "▴")
        text = aligned(title, placed.width, right=column.right)
        pieces.append((" " * (placed.x - x) + text, "accent" if number == 0 else "title"))
        x = placed.x + placed.width
    return pieces


def cells(
    drawn: DrawnRow, columns: Sequence[Column[Any]], shown: Sequence[PlacedColumn], ink: RowStyle, width: int
) -> Strip:
    """Return a row as a strip of at least `width` cells."""
    segments = [Segment("*" if ink.marked else " ", ink.base if ink.under else ink.look.style("accent"))]
    x = 0
    for placed in shown:
        column, cell = columns[placed.number], drawn.cells[placed.number]
        if placed.x > x:
            segments.append(Segment(" " * (placed.x - x), ink.base))
        text = aligned(shortened(cell.text, placed.width, column.cut), placed.width, right=column.right)
        segments.append(Segment(ink.look.drawn(text), ink.style(placed.number, cell)))
        x = placed.x + placed.width
    segments.append(Segment(" " * max(0, width - x - GUTTER), ink.base))
    return Strip(segments, max(width, x + GUTTER))


def shortened(text: str, width: int, cut: Literal["end", "middle", "model"]) -> str:
    """Return a text cut to at most this many cells."""
    return short_model(text, width) if cut == "model" else fit(text, width, cut)


def aligned(text: str, width: int, *, right: bool) -> str:
    """Return a text in a cell of this width; text that does not fit is cut at its end."""
    shown = fit(text, width)
    space = " " * (width - cell_width(shown))
    return space + shown if right else shown + space
