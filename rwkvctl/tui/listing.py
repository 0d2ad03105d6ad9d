"""Which rows of a model are shown, in which order, and which are marked. Pure: the table draws what this says.

The model is any sequence; rows are looked at only when they are drawn, sorted or filtered. A filter or an order is a
list of places in the model, so neither copies a row.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from rwkvctl.render import Cell
from rwkvctl.tui.columns import Column
from rwkvctl.tui.query import Query, parse

RowT = TypeVar("RowT")
SORTED_BY: Final = 3
"""Columns that an order remembers: the one chosen last decides, the ones before it break ties."""


class Listing(Generic[RowT]):
    """Rows, the filter and order over them, and the marks. `key` names a row for as long as it lives."""

    def __init__(self, columns: Sequence[Column[RowT]], key: Callable[[RowT], str]) -> None:
        self.columns, self.key = list(columns), key
        self.rows: Sequence[RowT] = ()
        self.query = Query()
        self.sorts: list[tuple[int, bool]] = []
        self.marks: dict[str, None] = {}
        self.shown: list[int] = []
        self._sorted: list[int] = []
        self._hay: list[str | None] = []

    def __len__(self) -> int:
        return len(self.shown)

    def row(self, place: int) -> RowT:
        """The row at a place of what is shown."""
        return self.rows[self.shown[place]]

    def key_at(self, place: int) -> str:
        """The key of the row at a place of what is shown; empty beyond its end."""
        return self.key(self.row(place)) if 0 <= place < len(self.shown) else ""

    def place_of(self, key: str, near: int = 0) -> int:
        """Where a row is shown, -1 if it is not; looked for at `near` first."""
        if not key or self.key_at(near) == key:
            return near if key else -1
        return next((place for place in range(len(self.shown)) if self.key_at(place) == key), -1)

    def replace(self, rows: Sequence[RowT]) -> None:
        """Take other rows. Rows that are the same objects cost nothing more; a list is copied, another model is not,
        and of that nothing is read before it is shown."""
        before, self.rows = self.rows, rows.copy() if isinstance(rows, list) else rows
        changed = differing(before, rows)
        if changed is None or any(self.key(before[i]) != self.key(rows[i]) for i in changed):
            self._hay = [None] * len(rows)
            if self.marks:
                there = set(map(self.key, rows))
                self.marks = {key: None for key in self.marks if key in there}
            self.arrange()
        elif changed:
            for place in changed:
                self._hay[place] = None
            if self.sorts or self.query.tests:
                self.arrange()

    def put(self, place: int, row: RowT) -> None:
        """Replace one row of the model, which must be a list. Order and filter stay until they are asked for again."""
        rows = self.rows
        if not isinstance(rows, list):
            raise TypeError("only a list can have one row replaced")
        rows[place] = row
        self._hay[place] = None

    def filter(self, text: str) -> None:
        """Show only what passes. Raises ValueError with a sentence for the operator; then nothing changes."""
        self.query = parse(text, [column.field for column in self.columns])
        self.arrange(resort=False)

    def sort(self, column: int, *, descending: bool | None = None) -> None:
        """Order by a column: a new one by its natural direction, the same one turned round."""
        now = self.sorts[0] if self.sorts else (-1, False)
        if descending is None:
            descending = not now[1] if now[0] == column else self.columns[column].right
        self.sorts = [(column, descending), *(pair for pair in self.sorts if pair[0] != column)][:SORTED_BY]
        self.arrange()

    def unsort(self) -> None:
        """Back to the order of the model."""
        self.sorts = []
        self.arrange()

    def arrange(self, *, resort: bool = True) -> None:
        """Apply order and filter anew."""
        if resort or len(self._sorted) != len(self.rows):
            self._sorted = list(range(len(self.rows)))
            for column, descending in reversed(self.sorts):
                self._sorted = self._ordered(self._sorted, column, descending)
        self.shown = self._passing() if self.query.tests else self._sorted

    def _ordered(self, places: list[int], column: int, descending: bool) -> list[int]:
        """Places by the values of a column; rows without one last, whichever way."""
        value_of, rows = self.columns[column].value_of, self.rows
        values = {place: value_of(rows[place]) for place in places}
        known = [place for place in places if values[place] not in MISSING]
        keys = sort_keys({place: values[place] for place in known})
        known.sort(key=keys.__getitem__, reverse=descending)
        return known + [place for place in places if values[place] in MISSING]

    def _passing(self) -> list[int]:
        """Places that pass the filter. This is a key stroke over every row, so it is one plain loop."""
        tests, values, shown = self.query.tests, Values(self), list[int]()
        hay = self.searched()
        for place in self._sorted:
            text, values.place = hay[place] or "", place
            if all(test(text, values) for test in tests):
                shown.append(place)
        return shown

    def searched(self) -> list[str | None]:
        """The text of every row in lower case, made where it is not there yet."""
        hay, rows = self._hay, self.rows
        cells = [column.cell for column in self.columns if not column.live]
        for place, text in enumerate(hay):
            if text is None:
                row = rows[place]
                hay[place] = "\t".join([text_of(cell(row)) for cell in cells]).lower()
        return hay

    def toggle(self, key: str) -> None:
        """Mark a row, or take its mark away."""
        if key in self.marks:
            del self.marks[key]
        elif key:
            self.marks[key] = None

    def mark_range(self, start: int, end: int) -> None:
        """Mark everything shown between two places, both included."""
        low, high = sorted((start, end))
        self.marks |= {self.key_at(place): None for place in range(max(0, low), min(high + 1, len(self)))}

    def targets(self, place: int) -> list[str]:
        """What a verb acts on: the marked rows, else the one at the cursor."""
        return list(self.marks) or [key for key in [self.key_at(place)] if key]


MISSING: Final = (None, "", "–")
"""Values that say that there is none."""


class Values:
    """The values of one row after the other, for tests."""

    def __init__(self, listing: "Listing[Any]") -> None:
        self.place = 0
        self._rows = listing.rows
        self._columns = {column.field: column for column in listing.columns}

    def __call__(self, field: str) -> object:
        return self._columns[field].value_of(self._rows[self.place])


def sort_keys(values: dict[int, Any]) -> dict[int, Any]:
    """Values to sort by: words in any case; where both stand in a column, numbers before words."""
    kinds = {isinstance(value, str) for value in values.values()}
    if kinds == {True}:
        return {place: value.lower() for place, value in values.items()}
    if kinds == {True, False}:
        return {
            place: (True, value.lower()) if isinstance(value, str) else (False, value)
            for place, value in values.items()
        }
    return values


def text_of(cell: str | Cell) -> str:
    """A cell's text."""
    return cell.text if isinstance(cell, Cell) else cell


def differing(before: Sequence[RowT], after: Sequence[RowT]) -> list[int] | None:
    """Places at which two models differ; None if they are not of one length, or not held in memory."""
    if len(before) != len(after) or not all(isinstance(rows, (list, tuple)) for rows in (before, after)):
        return None
    pairs: Iterable[tuple[RowT, RowT]] = zip(before, after, strict=True)
    return [place for place, (old, new) in enumerate(pairs) if old is not new and old != new]
