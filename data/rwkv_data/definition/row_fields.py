"""Which fields of prepared rows `where` and `order` may name: those that hold nothing but numbers, booleans and short
texts."""

import json
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeVar

from rwkv_data.definition import row_filter, row_order
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_filter import SHOWN, FieldPart, RowFilter, Scalar, unknown_field
from rwkv_data.definition.stage import Row

OF_A_FILE: Final = "; a file is given to `dispatch --set order=FILE`; elsewhere write its labels: row-order@…"
Asked = TypeVar("Asked", bound=Hashable)
Result = TypeVar("Result")

LONGEST: Final = 200
"""Characters of a text that is short, and of a field's name."""
MOST_FIELDS: Final = 128
"""Fields that are looked at, in the order in which rows have them: a hostile set may name millions."""
MIXED: Final = "mixed values"
NUMBER: Final = "number"


REMEMBERED: Final = 8
"""Filters and orders of one set that are kept, a byte and eight bytes a row: the kinds of a plan ask for the same."""


class RowFields(Protocol):
    """The fields of all rows of a set. `kinds` says what each holds; `column` yields a field in parts; `matching`
    returns a byte for each row: 1 if the filter lets it pass; `ordered` the indices of the rows that have a number in a
    field, the lowest number first. Both raise SettingError for a field that is none of them. `pinned` gives the name
    that will mean the same values at any later time."""

    @property
    def kinds(self) -> Mapping[str, str]: ...

    def column(self, name: str) -> Iterator[FieldPart]: ...

    def matching(self, where: RowFilter) -> bytes: ...

    def ordered(self, name: str) -> Sequence[int]: ...

    def pinned(self, name: str) -> str: ...


def check_order(name: str, kinds: Mapping[str, str], labels: Container[str] = ()) -> None:
    """Raise SettingError if rows cannot be ordered by a name, as `unknown_field` tells."""
    if problem := unknown_field("order", [name], kinds, labels):
        if not row_filter.is_pinned(name):
            of_file = any(mark in name for mark in row_order.OF_FILES)
            problem += (
                OF_A_FILE if of_file else f"; for a file of that name `dispatch` takes --set order=./{name[:SHOWN]}"
            )
        raise SettingError(problem)


class LatestResults(Generic[Asked, Result]):
    """The results of what was asked for last. A plan and the samples of a job are answered in two threads."""

    def __init__(self) -> None:
        self._known: dict[Asked, Result] = {}

    def of(self, asked: Asked, compute: Callable[[], Result]) -> Result:
        """Return what was computed before, or else is now."""
        known = self._known.get(asked)
        if known is None:
            known = compute()
            for oldest in list(self._known)[: 1 - REMEMBERED]:
                self._known.pop(oldest, None)
            self._known[asked] = known
        return known


class FieldKinds:
    """Finds the fields of rows that come one by one."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}

    def take(self, row: Row) -> None:
        """Look at the next row."""
        for name, value in row.items():
            if value is not None and (before := self._before(name)) != "":
                kind = kind_of(value)
                self._kinds[name] = kind if before in {None, kind} or not kind else MIXED

    def _before(self, name: str) -> str | None:
        """What the field held so far: None if nothing, "" if it is no field to choose by."""
        if name in self._kinds:
            return self._kinds[name]
        return None if len(self._kinds) < MOST_FIELDS and len(name) <= LONGEST else ""

    def is_open(self, name: str) -> bool:
        """Whether the field can still be chosen by."""
        return bool(self._kinds.get(name))

    @property
    def kinds(self) -> dict[str, str]:
        """What each field holds, by name, sorted."""
        return {name: kind for name, kind in sorted(self._kinds.items()) if kind}


class RowsAtHand:
    """The fields of rows that are in memory."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """What each field holds, by name."""
        found = FieldKinds()
        for row in self._rows:
            found.take(row)
        return found.kinds

    def matching(self, where: RowFilter) -> bytes:
        """Return a byte for each row: 1 if it matches. Raises SettingError for an unknown field."""
        if problem := unknown_field("where", where.fields, self.kinds):
            raise SettingError(problem)
        return row_filter.matching(where, self.column)

    def ordered(self, name: str) -> Sequence[int]:
        """Return the rows that have a number in a field, by that number. Raises SettingError for an unknown field."""
        check_order(name, self.kinds)
        return row_order.ascending(self.column(name))

    def pinned(self, name: str) -> str:
        """Return the name itself: the fields of rows do not change."""
        return name

    def column(self, name: str) -> Iterator[FieldPart]:
        """Yield a field in one part."""
        coded = FieldValues()
        codes = [coded.code(row.get(name)) for row in self._rows]
        yield FieldPart(coded.values, codes)


class FieldValues:
    """The distinct values of a field, each with its code. Told apart by their JSON: 1, 1.0 and true are three."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.values: list[Scalar] = []

    def code(self, value: Scalar | None) -> int:
        """Return the code of a value, counted from 1; 0 for None."""
        if value is None:
            return 0
        spelled = json.dumps(value, ensure_ascii=False)
        if spelled not in self._codes:
            self.values.append(value)
            self._codes[spelled] = len(self.values)
        return self._codes[spelled]


def kind_of(value: Any) -> str:
    """Return what a value is to a filter; empty for one that cannot be chosen by."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return NUMBER
    return "text" if isinstance(value, str) and len(value) <= LONGEST else ""
