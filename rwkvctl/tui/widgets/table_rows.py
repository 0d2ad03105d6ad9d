"""Which rows of a model are shown, in which order, and which are marked. Pure: the table draws what this says.

The model is any sequence; rows are looked at only when they are drawn, sorted or filtered. A filter or an order is a
list of places in the model, so neither copies a row.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from rwkvctl.tui.widgets.filter_query import Query, parse
from rwkvctl.tui.widgets.table_columns import Column, whole_text_of

RowT = TypeVar("RowT")
SORTED_BY: Final = 3
"""Columns that an order remembers: the one chosen last decides, the ones before it break ties."""


class Listing(Generic[RowT]):
    """Rows with a filter, an order and marks; `key` returns the permanent name of a row."""

    def __init__(self, columns: Sequence[Column[RowT]], key: Callable[[RowT], str]) -> None:
        self.columns, self.key = list(columns), key
        self.rows: Sequence[RowT] = ()
        self.query = Query()
        self.sorts: list[tuple[int, bool]] = []
        self.marks: dict[str, None] = {}
        self.shown: list[int] = []
        self._sorted: list[int] = []
        self._hay: list[str] = []

    def __len__(self) -> int:
        return len(self.shown)

    def row(self, place: int) -> RowT:
        """Return the row at a place of what is shown."""
        return self.rows[self.shown[place]]

    def key_at(self, place: int) -> str:
        """Return the key of the row at a place of what is shown; empty beyond its end."""
        return self.key(self.row(place)) if 0 <= place < len(self.shown) else ""

    def place_of(self, key: str, near: int = 0) -> int:
        """Return the place of a row, -1 if it is not shown; `near` is tried first."""
        if not key or self.key_at(near) == key:
            return near if key else -1
        return next((place for place in range(len(self.shown)) if self.key_at(place) == key), -1)

    def replace(self, rows: Sequence[RowT]) -> None:
        """Take other rows. Rows that are the same objects cost nothing more; a list is copied, another model is not,
        and of that nothing is read before it is shown."""
        before, self.rows = self.rows, rows.copy() if isinstance(rows, list) else rows
        changed = differing(before, rows)
        if changed is None or any(self.key(before[i]) != self.key(rows[i]) for i in changed):
            self._hay = carried(self._hay, before, rows)
            if self.marks:
                there = set(map(self.key, rows))
                self.marks = {key: None for key in self.marks if key in there}
            self.arrange()
        elif changed:
            for place in changed:
                self._hay[place] = ""
            if self.sorts or self.query.tests:
                self.arrange()

    def put(self, place: int, row: RowT) -> None:
        """Replace one row of the model, which must be a list. Order and filter stay until they are asked for again."""
        rows = self.rows
        if not isinstance(rows, list):
            raise TypeError("only a list can have one row replaced")
        rows[place] = row
        self._hay[place] = ""

    def filter(self, text: str) -> None:
        """Show only what passes. Raises ValueError with a sentence for the operator; then nothing changes."""
        self.query = parse(text, {column.field: column.read for column in self.columns})
        self.arrange(resort=False)

    def sort(self, column: int, *, descending: bool | None = None) -> None:
        """Sort by a column: a new one in its natural direction, the same one in reverse."""
        now = self.sorts[0] if self.sorts else (-1, False)
        if descending is None:
            descending = not now[1] if now[0] == column else self.columns[column].right
        self.sorts = [(column, descending), *(pair for pair in self.sorts if pair[0] != column)][:SORTED_BY]
        self.arrange()

    def unsort(self) -> None:
        """Restore the order of the model."""
        self.sorts = []
        self.arrange()

    def arrange(self, *, resort: bool = True) -> None:
        """Apply the filter anew, and the order too if `resort` is set or the number of rows has changed."""
        if resort or len(self._sorted) != len(self.rows):
            self._sorted = list(range(len(self.rows)))
            for column, descending in reversed(self.sorts):
                self._sorted = self._ordered(self._sorted, column, descending)
        self.shown = self._passing() if self.query.tests else self._sorted

    def _ordered(self, places: list[int], column: int, descending: bool) -> list[int]:
        """Return places sorted by the values of a column; rows without a value are last in either direction."""
        read, rows = self.columns[column].read, self.rows
        values = [read(rows[place]) for place in places]
        known = [number for number, value in enumerate(values) if value not in MISSING]
        keys = sort_keys([values[number] for number in known])
        order = sorted(range(len(known)), key=keys.__getitem__, reverse=descending)
        found = [places[known[number]] for number in order]
        if len(found) < len(places):
            found += [place for place, value in zip(places, values, strict=True) if value in MISSING]
        return found

    def _passing(self) -> list[int]:
        """Return the places that pass the filter. It runs over every row at each key press, so it is one plain loop a
        word."""
        hay, rows, shown = self.searched(), self.rows, self._sorted
        for test in self.query.tests:
            shown = [place for place in shown if test(hay[place], rows[place])]
        return shown

    def searched(self) -> list[str]:
        """Return the text of every row in lower case, computed where it is missing."""
        hay, rows = self._hay, self.rows
        cells = [column.cell for column in self.columns if not column.live]
        for place, text in enumerate(hay):
            if not text:
                row = rows[place]
                hay[place] = "\t".join([whole_text_of(cell(row)) for cell in cells]).lower()
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
        """Return the keys that a verb acts on: the marked rows, else the one at the cursor."""
        return list(self.marks) or [key for key in [self.key_at(place)] if key]


MISSING: Final = (None, "", "–")
"""Values that say that there is none."""


def sort_keys(values: list[Any]) -> list[Any]:
    """Return keys to sort by: words in any case; in a mixed column numbers come before words."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return [value.lower() for value in values]
    if str in kinds:
        return [(True, value.lower()) if isinstance(value, str) else (False, value) for value in values]
    return values


def carried(hay: list[str], before: Sequence[RowT], after: Sequence[RowT]) -> list[str]:
    """The texts of rows that are still there where rows came before or behind them, as in a list that only grows; else
    none is known."""
    new = len(after) - len(before)
    if new > 0 and before and isinstance(before, list) and isinstance(after, list):
        if all(map(operator.is_, before, itertools.islice(after, new, None))):
            return [""] * new + hay
        if all(map(operator.is_, before, after)):
            return hay + [""] * new
    return [""] * len(after)


def differing(before: Sequence[RowT], after: Sequence[RowT]) -> list[int] | None:
    """Return the places at which two models differ; None if their lengths differ, or one is not held in memory."""
    if len(before) != len(after) or not all(isinstance(rows, (list, tuple)) for rows in (before, after)):
        return None
    pairs: Iterable[tuple[RowT, RowT]] = zip(before, after, strict=True)
    return [place for place, (old, new) in enumerate(pairs) if old is not new and old != new]
