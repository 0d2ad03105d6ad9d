"""Labels from a file of anybody's: a value for each row of a prepared set, matched by the row's name or its problem.

The columns of the first row decide how rows are matched, in this order: `row` (what the row is called here: the id that
it has upstream, else NAME/INDEX, or the index alone), the problem (under a name that rows of one's own may have for
it; blanks do not matter), or an id of the upstream set. Sets of labels that others published have the problem.

A row without a value in the file has no label. Nor has one for which the file has several values that differ, because
nothing says which of them is right. -1 is how published tables of difficulties say that there is none.
"""

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rwkv_data.definition import row_ids
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import PrepareError, SettingError
from rwkv_data.definition.row_fields import LONGEST
from rwkv_data.definition.row_filter import Scalar, number_of
from rwkv_data.definition.stage import Row
from rwkv_data.labels import label_file
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels
from rwkv_data.labels.named_rows import rows_by_name
from rwkv_data.labels.publishing import publish_labels
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.sources import local
from rwkv_data.prepare.sources.own_rows import QUESTION
from rwkv_data.prepare.sources.raw import NOTES, Placed, Raw
from rwkv_data.recipes.cleaning.row_text import PROBLEM, passages

RULE: Final = "imported/1"
ROW: Final = "row"
NOT_THERE: Final = "not in the file"
NO_VALUE: Final = "without a value"
SEVERAL: Final = "with several values"
SHARED: Final = "with a problem that other rows ask with other choices or texts"
_NONE: Final = -1
_TOO_LARGE: Final = 10**18
_REPORT_EVERY: Final = 2000

Places = Mapping[Any, list[int]]
"""The indices of the rows that have a key."""


class Matching(NamedTuple):
    """How rows of a file find rows of the set: by the value of a column, made a key. `shared` are keys of rows that
    are not the same task."""

    column: str
    key: Callable[[Any], Any]
    places: Places
    shared: Collection[Any] = ()


def import_labels(
    data_dir: Path,
    benchmark: Benchmark,
    path: Path,
    field: str,
    column: str = "",
    report: Callable[[int], None] = lambda _: None,
) -> StoredLabels:
    """Publish the values of a column (default: that of the field's name) as labels of a prepared set. Raises DataError
    if the file cannot be read, or none of its rows is one of the set."""
    manifest = prepared_sets.current_manifest(data_dir, benchmark)
    fields = prepared_sets.fields_of(data_dir, benchmark, manifest)
    label_file.check_field(field, fields.kinds)
    if not path.is_file():
        raise PrepareError(f"{path} cannot be read: {'it is no plain file' if path.exists() else 'there is none'}")
    raw = local.open_rows(path, (), "train", header=True)
    rows = iter(raw.placed)
    placed = next(rows, None)
    if placed is None:
        raise PrepareError(f"{path} has no rows")
    first = placed[1]
    value = column_named(first, column or field)
    matching = _matching(data_dir, benchmark, first, value)
    found = _found(itertools.chain([placed], rows), value, matching, report)
    if not found:
        shown = str(first[matching.column])[:80]
        raise SettingError(
            f"no row of {path} is a row of {benchmark.name}: they were compared by {matching.column!r}, which is "
            f"{shown!r} in the first"
        )
    return _publish(data_dir, benchmark, manifest, raw, field, found)


def _publish(
    data_dir: Path,
    benchmark: Benchmark,
    manifest: prepared_sets.Manifest,
    raw: Raw,
    field: str,
    found: "dict[int, _Value | str]",
) -> StoredLabels:
    values, missing = list[Scalar | None](), Counter[str]()
    for index in range(manifest.rows):
        value = found.get(index, NOT_THERE)
        values.append(value.value if isinstance(value, _Value) else None)
        missing.update([value] if isinstance(value, str) else [])
    values = _numbers(values)
    origin = LabelOrigin(RULE, raw.source, dict(sorted(missing.items())), {"revision": raw.revision})
    return publish_labels(data_dir, benchmark, manifest.sha256, field, origin, values)


class _Value(NamedTuple):
    value: Scalar

    @property
    def meaning(self) -> tuple[bool, Scalar]:
        """What two spellings of a value have in common: 2, 2.0 and "2" are one."""
        number = number_of(self.value)
        return isinstance(self.value, bool), self.value if number is None else number


def column_named(row: Row, name: str) -> str:
    """Return the column that has the labels. Raises SettingError with the names of those there are."""
    if name in row and name not in NOTES:
        return name
    names = ", ".join(repr(one)[:40] for one in row if one not in NOTES) or "none"
    raise SettingError(f"the file has no column {name!r}; name the one that holds the labels with --column: {names}")


def _matching(data_dir: Path, benchmark: Benchmark, row: Row, value: str) -> Matching:
    """Return how the rows of a file with this first row are matched. Raises SettingError if they cannot be."""
    names = [name for name in row if name not in NOTES and name != value]
    if ROW in names:
        manifest = prepared_sets.current_manifest(data_dir, benchmark)
        named = rows_by_name(data_dir, benchmark, manifest)
        return Matching(ROW, row_ids.upstream_id, {name: [index] for name, index in named.items()})
    plain = {name.strip().casefold(): name for name in reversed(names)}
    if problem := next((plain[name] for name in QUESTION if name in plain), None):
        return Matching(problem, text_key, *_by_problem(data_dir, benchmark))
    if id_ := next((name for name in row_ids.FIELDS if name in names), None):
        places = _by_id(data_dir, benchmark)
        if not places:
            raise SettingError(
                f"the file says by {id_!r} which row is meant, and the rows of {benchmark.name} have no ids of their "
                f"own; write what they are called here as {ROW!r}, or the problem"
            )
        return Matching(id_, row_ids.upstream_id, places)
    raise SettingError(
        f"nothing says which row is meant: the file has {', '.join(map(repr, names)) or 'no other column'}; rows are "
        f"matched by {ROW!r}, by the problem ({', '.join(QUESTION)}) or by an id ({', '.join(row_ids.FIELDS)})"
    )


def _by_id(data_dir: Path, benchmark: Benchmark) -> Places:
    """The rows by the ids that they have upstream: an index is none, however much it looks like one."""
    manifest = prepared_sets.current_manifest(data_dir, benchmark)
    names = prepared_sets.ids_of_rows(data_dir, benchmark, manifest, range(manifest.rows))
    return {name: [index] for index, name in enumerate(names) if name != f"{benchmark.name}/{index}"}


def _by_problem(data_dir: Path, benchmark: Benchmark) -> tuple[Places, set[bytes]]:
    """The rows by their problem, and the problems of rows that ask different things: choices or a passage differ."""
    found, whole, shared = dict[bytes, list[int]](), dict[bytes, bytes | None](), set[bytes]()
    for index, row in enumerate(prepared_sets.each_row(data_dir, benchmark)):
        problem = next((row[name] for name in PROBLEM if isinstance(row.get(name), str)), None)
        if (key := text_key(problem)) is not None:
            found.setdefault(key, []).append(index)
            task = text_key("\0".join(passages(row)))
            if whole.setdefault(key, task) != task:
                shared.add(key)
    return found, shared


def text_key(text: Any) -> bytes | None:
    """Return what two spellings of a problem have in common that differ in blanks only; None for what is no text."""
    if not isinstance(text, str):
        return None
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "backslashreplace")).digest()[:16]


def _found(
    rows: Iterable[Placed], column: str, matching: Matching, report: Callable[[int], None]
) -> dict[int, _Value | str]:
    """Return what the file has for each row of the set that is in it: a value, or why there is none."""
    found: dict[int, _Value | str] = {}
    for number, (place, row) in enumerate(rows, 1):
        key = matching.key(row.get(matching.column))
        for index in matching.places.get(key, ()):
            value = SHARED if key in matching.shared else _value(row.get(column), place)
            found[index] = _together(found.get(index), value)
        if not number % _REPORT_EVERY:
            report(number)
    return found


def _together(one: _Value | str | None, other: _Value | str) -> _Value | str:
    """What two lines of a file say of one row."""
    if one is None or one == NO_VALUE:
        return other
    if other == NO_VALUE or one in {SEVERAL, SHARED}:
        return one
    same = isinstance(one, _Value) and isinstance(other, _Value) and one.meaning == other.meaning
    return one if same else SEVERAL


def _value(value: Any, place: str) -> _Value | str:
    if isinstance(value, str):
        value = value.strip().encode("utf-8", "backslashreplace").decode()  # a lone surrogate fits no file
        if len(value) > LONGEST:
            raise PrepareError(f"{place}: a label of {len(value):,} characters; none has more than {LONGEST}")
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NO_VALUE
    if isinstance(value, str) and value.casefold() in {"", "nan", "null"}:
        return NO_VALUE
    if isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise PrepareError(f"{place}: the label is a number of more than 18 digits")
    if not isinstance(value, bool | int | float | str):
        raise PrepareError(f"{place}: the label is no number and no text")
    return NO_VALUE if number_of(value) == _NONE else _Value(value)


def _numbers(values: list[Scalar | None]) -> list[Scalar | None]:
    """The values as numbers if all are: a table of text holds numbers as text. Whole ones as integers, so that two
    spellings of the same labels are the same."""
    numbers = [None if value is None else _number(value) for value in values]
    all_are = all((number is None) == (value is None) for number, value in zip(numbers, values, strict=True))
    return list(numbers) if all_are else values


def _number(value: Scalar) -> int | float | None:
    number = number_of(value)
    if number is None or abs(number) >= _TOO_LARGE:
        return None
    return int(number) if float(number).is_integer() and abs(number) < 2**53 else number
