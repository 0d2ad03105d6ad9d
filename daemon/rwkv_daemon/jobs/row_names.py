"""Which rows of the prepared set a job's row numbers mean, what those rows are called, and their subjects.

A job counts the rows that it asks from 0; with `rows`, `where`, a window, a part or a share the same problem has
another number than in a run over the whole set. Nothing of this is stored: it follows from settings and rows.
"""

from collections.abc import Sequence

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.asked_rows import asked_indices
from rwkv_daemon.jobs.score_writer import asked_rows, effective_kind
from rwkv_daemon.store import JobRow
from rwkv_data.definition.errors import DataError
from rwkv_data.prepare import prepared_sets


def row_names(records: Records, catalogue: NodeCatalogue, job: JobRow) -> Sequence[str]:
    """Return the name of each row that a job asked, by its number (see rwkv_data.definition.row_ids). Empty where the
    rows are gone, were replaced, or were prepared without their fields."""
    try:
        return _named(records, catalogue, job)
    except DataError:
        return ()


def row_subjects(records: Records, catalogue: NodeCatalogue, job: JobRow) -> Sequence[str]:
    """Return the subject of each row that a job asked; empty if its kind groups by none or the rows cannot be read."""
    try:
        by = effective_kind(catalogue, job).group_by
        rows = asked_rows(records, catalogue, job)[0] if by else None
    except DataError:
        return ()
    return tuple(str(row.get(by, "")) for row in rows or ())


def _named(records: Records, catalogue: NodeCatalogue, job: JobRow) -> Sequence[str]:
    data_dir, benchmark = records.config.data_dir, catalogue.benchmarks.get(job.benchmark)
    manifest, extent = catalogue.benchmarks.manifest(benchmark), catalogue.benchmarks.extent(benchmark)
    if manifest is None or extent is None or extent.fields is None or manifest.sha256 != job.rows_sha256:
        return ()
    return prepared_sets.ids_of_rows(data_dir, benchmark, manifest, asked_indices(catalogue, job))
