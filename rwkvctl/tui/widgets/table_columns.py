"""Columns of a table: how a row becomes a cell, and which columns fit how wide. Pure.

Widths are fixed by the column, never by what stands in it, so nothing jumps when a value changes; but where there is
no room for all, columns without any value go before a name is cut.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from rwkvctl.cli.render import Cell

RowT = TypeVar("RowT")
GAP: Final = 1


class Column(NamedTuple, Generic[RowT]):
    """One column. `cell` draws a row; `value` is what is sorted and compared (default: the cell's text).

    `width` is what it wants, `least` what it can do with (default: all of it), `grow` its share of what is left over.
    Where the columns do not fit, those of the highest `rank` go first; 0 never goes. `live` ones change all the time:
    a change there is not news. `cut`: what goes where a text is too long; of a "model" first what tells least.
    """

    title: str
    cell: Callable[[RowT], str | Cell]
    width: int
    value: Callable[[RowT], object] | None = None
    least: int = 0
    grow: int = 0
    rank: int = 0
    right: bool = False
    cut: Literal["end", "middle", "model"] = "end"
    live: bool = False
    name: str = ""

    @property
    def field(self) -> str:
        """Name of the column in filters: lower case, with `-` in place of blanks."""
        return (self.name or self.title).strip().lower().replace(" ", "-")

    @property
    def read(self) -> Callable[[RowT], object]:
        """How what is sorted and compared is read from a row."""
        cell = self.cell
        return self.value or (lambda row: text_of(cell(row)))

    def exported(self, row: RowT) -> str:
        """A value as a file has it: whole, and of a drawn one what it stands for."""
        if self.live:
            value = self.read(row)
            return "" if value is None else str(value).strip()
        return whole_text_of(self.cell(row)).strip()


def text_of(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def whole_text_of(cell: str | Cell) -> str:
    """What a cell stands for, where its text is a short form."""
    return (cell.plain or cell.text) if isinstance(cell, Cell) else cell


class PlacedColumn(NamedTuple):
    """A shown column: its number, the cell where it begins, and its width."""

    number: int
    x: int
    width: int


def fitted(
    columns: Sequence[Column[RowT]], room: int, *, every: bool = False, empty: Collection[int] = ()
) -> list[PlacedColumn]:
    """Which columns are shown in so many cells, and how wide. `every` shows all as they want, however wide that is;
    those that are `empty` go first where not all can have what they want."""
    if every:
        return placed(range(len(columns)), [column.width for column in columns])
    kept = list(range(len(columns)))
    if sum(column.width + GAP for column in columns) - GAP > room:
        kept = [i for i in kept if i not in empty or not columns[i].rank]
    while needed(columns, kept) > room and (droppable := [i for i in kept if columns[i].rank]):
        kept.remove(max(droppable, key=lambda i: (columns[i].rank, i)))
    return placed(kept, widths(columns, kept, room))


def needed(columns: Sequence[Column[RowT]], kept: Sequence[int]) -> int:
    """The cells that these columns need at least."""
    return sum(columns[i].least or columns[i].width for i in kept) + GAP * (len(kept) - 1)


def widths(columns: Sequence[Column[RowT]], kept: Sequence[int], room: int) -> list[int]:
    """The width of each: first the least, then up to what it wants in order of rank, then by `grow`."""
    found = {i: columns[i].least or columns[i].width for i in kept}
    left = room - needed(columns, kept)
    for i in sorted(kept, key=lambda i: columns[i].rank):
        more = max(0, min(left, columns[i].width - found[i]))
        found[i] += more
        left -= more
    shares = sum(columns[i].grow for i in kept)
    for i in kept:
        if left > 0 and columns[i].grow:
            more = left * columns[i].grow // shares
            found[i], left, shares = found[i] + more, left - more, shares - columns[i].grow
    return [found[i] for i in kept]


def placed(kept: Sequence[int], wide: Sequence[int]) -> list[PlacedColumn]:
    """Return columns side by side, GAP cells apart; `kept` are their numbers, `wide` their widths."""
    x, found = 0, list[PlacedColumn]()
    for i, width in zip(kept, wide, strict=True):
        found.append(PlacedColumn(i, x, width))
        x += width + GAP
    return found
