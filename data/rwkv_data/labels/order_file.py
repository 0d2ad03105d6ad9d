"""An order of rows as a file: a row a line, by what it is called, the first to be asked first. It is kept as labels,
each row's its place from 1 on, so that `order` asks by it and `where` can pick by it, with the version in their
name. Such labels are no field of the rows, and so in nobody's way."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import SettingError
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels, labels_of
from rwkv_data.labels.named_rows import rows_by_name
from rwkv_data.labels.publishing import publish_labels
from rwkv_data.prepare import prepared_sets

FIELD: Final = "row-order"
RULE: Final = "order-file/1"
NOT_THERE: Final = "not in the order"
NAMED: Final = 5
"""Lines that an error names."""
SHOWN: Final = 80


def publish_order(data_dir: Path, benchmark: Benchmark, lines: Sequence[str]) -> StoredLabels:
    """Publish the order in which the lines name rows; blank lines say nothing. Raises DataError, and names each line
    that names no row, or one that was named before."""
    manifest = prepared_sets.current_manifest(data_dir, benchmark)
    prepared_sets.fields_of(data_dir, benchmark, manifest)
    indices = places(benchmark.name, lines, rows_by_name(data_dir, benchmark, manifest))
    # Of the file nothing but the order counts: the same order is the same labels, and so the same work.
    order = hashlib.sha256(",".join(map(str, indices)).encode()).hexdigest()
    for known in labels_of(data_dir, benchmark.name, manifest.sha256):
        if known.labels.field == FIELD and known.labels.facts.get("order") == order:
            return known
    values: list[int | None] = [None] * manifest.rows
    for place, index in enumerate(indices, 1):
        values[index] = place
    missing = {NOT_THERE: manifest.rows - len(indices)}
    origin = LabelOrigin(RULE, "an order of rows", missing, {"order": order}, by_version=True)
    return publish_labels(data_dir, benchmark, manifest.sha256, FIELD, origin, values)


def places(benchmark: str, lines: Iterable[str], rows: Mapping[str, int]) -> list[int]:
    """Return the index of the row that each line names, among rows by their names. Raises SettingError."""
    first_lines, wrong = dict[int, int](), list[str]()
    for number, line in enumerate(lines, 1):
        if not (name := line.strip()):
            continue
        index = rows.get(name)
        if index is None:
            wrong.append(f"line {number}: {benchmark} has no row {name[:SHOWN]!r}")
        elif index in first_lines:
            wrong.append(f"line {number}: {name[:SHOWN]!r} is the row of line {first_lines[index]} already")
        else:
            first_lines[index] = number
    if wrong:
        more = f"; and {len(wrong) - NAMED:,} more such lines" if len(wrong) > NAMED else ""
        raise SettingError("; ".join(wrong[:NAMED]) + more)
    if not first_lines:
        raise SettingError("no line names a row")
    return list(first_lines)
