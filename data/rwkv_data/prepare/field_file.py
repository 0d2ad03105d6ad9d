r"""The fields of prepared rows by column, beside the rows: HOME/data/NAME/fields.jsonl.

Planning reads it where a `where` is set, and the names of rows come from it; neither reads a row. The rows come in
groups; a group is a line with its number of rows, and a line for each field that any of them has
(rwkv_data.definition.row_fields says which count):

    {"rows": 65536}
    {"name": "source", "values": ["math", "olympiads"], "codes": [1, 1, 2, 0, ...]}

A code is the place of the row's value in `values`, counted from 1; 0: the row has no such field. A field that turns out
in a later group to be none that can be chosen by is missing in the manifest's `fields`, and its lines are not read.
Neither writing nor reading holds more than a group.
"""

import hashlib
import itertools
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rwkv_data.definition import row_filter, row_ids, row_order
from rwkv_data.definition.errors import RowsDamagedError, SettingError
from rwkv_data.definition.row_fields import FieldKinds, FieldValues, LatestResults, check_order
from rwkv_data.definition.row_filter import FieldPart, RowFilter, Scalar, unknown_field
from rwkv_data.definition.stage import Row

GROUP_ROWS: Final = 65_536
GROUP_BYTES: Final = 8 << 20
"""A group ends with its last row, or earlier where the texts of its fields come to so much."""
MOST_LINE: Final = 64 << 20


class _Line(msgspec.Struct):
    rows: int = 0
    name: str = ""
    values: list[Scalar] = []
    codes: list[int] = []


class _OpenColumn:
    """A field of the rows of a group that is not full yet."""

    def __init__(self) -> None:
        self.coded, self.codes = FieldValues(), array("I")

    def add(self, place: int, value: Scalar) -> None:
        self.fill(place)
        self.codes.append(self.coded.code(value))

    def fill(self, rows: int) -> None:
        """Rows without the field have the code 0."""
        self.codes.frombytes(bytes(self.codes.itemsize * (rows - len(self.codes))))


class FieldWriter:
    """Writes the fields of rows that come one by one; afterwards `kinds` and `unique_ids` are those of all rows."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write, self._kinds, self._ids = write, FieldKinds(), array("Q")
        self._rows = self._bytes = 0
        self._open: dict[str, _OpenColumn] = {}

    @property
    def kinds(self) -> dict[str, str]:
        """What each field holds, by name."""
        return self._kinds.kinds

    @property
    def unique_ids(self) -> bool:
        """Whether no two rows have the same id upstream."""
        known = sorted(self._ids)
        return all(one != other for one, other in itertools.pairwise(known))

    def take(self, row: Row) -> None:
        """Add the next row of the file; a group that is full is written out."""
        self._kinds.take(row)
        for name, value in row.items():
            if value is not None and self._kinds.is_open(name):
                self._open.setdefault(name, _OpenColumn()).add(self._rows, value)
                self._bytes += len(value) if isinstance(value, str) else 8
        if upstream := row_ids.upstream_of(row):
            self._ids.append(int.from_bytes(hashlib.sha256(upstream.encode()).digest()[:8]))
        self._rows += 1
        if self._rows == GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self.finish()

    def finish(self) -> None:
        """Write the group that is open, if it has rows."""
        if not self._rows:
            return
        self._write(b'{"rows":%d}\n' % self._rows)
        for name, column in self._open.items():
            if self._kinds.is_open(name):
                column.fill(self._rows)
                values = json.dumps(column.coded.values, ensure_ascii=False, separators=(",", ":"))
                codes = json.dumps(column.codes.tolist(), separators=(",", ":"))
                self._write(_start(name) + f'"values":{values},"codes":{codes}}}\n'.encode())
        self._rows, self._bytes, self._open = 0, 0, {}


def _start(name: str) -> bytes:
    """Return how the lines of a field begin."""
    return f'{{"name":{json.dumps(name, ensure_ascii=False)},'.encode()


class FieldFile:
    """The fields of a prepared set, as its manifest says they are. `again` says how to prepare it again."""

    def __init__(self, path: Path, sha256: str, rows: int, kinds: Mapping[str, str], again: str) -> None:
        self.path, self.kinds = path, kinds
        self._sha256, self._rows, self._again = sha256, rows, again
        self._matches, self._orders = LatestResults[RowFilter, bytes](), LatestResults[str, Sequence[int]]()

    def matching(self, where: RowFilter) -> bytes:
        """Return a byte for each row: 1 if it matches. Raises SettingError for an unknown field, and
        RowsDamagedError."""
        if problem := unknown_field("where", where.fields, self.kinds):
            raise SettingError(problem)
        return self._matches.of(where, lambda: row_filter.matching(where, self.column))

    def ordered(self, name: str) -> Sequence[int]:
        """Return the rows that have a number in a field, by that number. Raises SettingError for an unknown field, and
        RowsDamagedError."""
        check_order(name, self.kinds)
        return self._orders.of(name, lambda: row_order.ascending(self.column(name)))

    def pinned(self, name: str) -> str:
        """Return the name itself: the manifest says which fields these are."""
        return name

    def column(self, name: str) -> Iterator[FieldPart]:
        """Yield a field, group by group. Raises RowsDamagedError, at the latest after the last one, if the file is not
        that of the manifest."""
        rows = 0
        try:
            for part in self._parts(name):
                rows += len(part.codes)
                yield part
        except OSError as error:
            raise RowsDamagedError(f"{self.path} cannot be read ({error.strerror or error}); {self._again}") from None
        except (msgspec.MsgspecError, ValueError) as error:
            raise RowsDamagedError(f"{self.path} is damaged ({error}); {self._again}") from None
        if rows != self._rows:
            raise RowsDamagedError(f"{self.path} has {rows} rows, its manifest says {self._rows}; {self._again}")

    def values(self, name: str) -> Iterator[Scalar | None]:
        """Yield the value of each row; None for a row without the field. Raises RowsDamagedError."""
        for values, codes in self.column(name):
            yield from map([None, *values].__getitem__, codes)

    def _parts(self, name: str) -> Iterator[FieldPart]:
        digest, start, decode = hashlib.sha256(), _start(name), msgspec.json.Decoder(_Line).decode
        missing, part = 0, None
        with self.path.open("rb", buffering=1 << 20) as file:
            while line := file.readline(MOST_LINE):
                digest.update(line)
                if line.startswith(b'{"rows":'):
                    yield from _group(missing, part)
                    missing, part = decode(line).rows, None
                    if missing > GROUP_ROWS:  # its sum is known at the end only
                        raise ValueError(f"a group of {missing} rows")
                elif line.startswith(start):
                    part = _checked(decode(line), missing)
        if digest.hexdigest() != self._sha256:
            raise ValueError("other sha256 than when it was written")
        yield from _group(missing, part)


def _group(rows: int, part: FieldPart | None) -> Iterator[FieldPart]:
    """A group in which no row has the field has no line for it."""
    if rows:
        yield part or FieldPart((), bytes(rows))


def _checked(line: _Line, rows: int) -> FieldPart:
    if len(line.codes) != rows or not 0 <= min(line.codes) <= max(line.codes) <= len(line.values):
        raise ValueError(f"the field {line.name!r} does not fit its rows")
    return FieldPart(line.values, line.codes)
