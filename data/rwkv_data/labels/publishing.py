"""Publishing labels of the rows that a set had when they were found."""

from collections.abc import Sequence
from pathlib import Path

from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.row_filter import Scalar
from rwkv_data.labels import label_file
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels
from rwkv_data.prepare import prepared_sets


def publish_labels(
    data_dir: Path,
    benchmark: Benchmark,
    rows_sha256: str,
    field: str,
    origin: LabelOrigin,
    values: Sequence[Scalar | None],
) -> StoredLabels:
    """Publish a value or None for each row of a prepared set. Which row a value belongs to was read while the set had
    this sha256: if it has another by now, nothing is written. Raises DataError."""
    labels = label_file.label_set(benchmark.name, rows_sha256, field, origin, values)
    manifest = prepared_sets.current_manifest(data_dir, benchmark)
    if manifest.sha256 != rows_sha256:
        raise RowsDamagedError(
            f"the rows of {benchmark.name} were prepared anew meanwhile; label them again, or prepare the former ones"
        )
    assert len(values) == manifest.rows, "a value or None for each row"
    return label_file.publish(data_dir, labels, values)
