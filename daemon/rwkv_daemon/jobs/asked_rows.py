"""Which rows of the prepared set a job asked, by their number in the job. Nothing of this is stored: it follows from
settings and rows, and cannot be told once either is gone."""

from collections.abc import Sequence

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.jobs.score_writer import set_kind
from rwkv_daemon.store import JobRow
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.prepare import prepared_sets


def asking_kind(catalogue: NodeCatalogue, job: JobRow) -> Kind:
    """Return the kind of a job with the settings that picked its rows among those that are prepared. Raises
    RowsDamagedError if other rows are prepared, or the labels that `where` or `order` names are gone."""
    benchmark = catalogue.benchmarks.get(job.benchmark)
    manifest = prepared_sets.current_manifest(catalogue.benchmarks.data_dir, benchmark)
    if manifest.sha256 != job.rows_sha256:
        raise RowsDamagedError(
            f"the rows of {job.benchmark} are not those that {job.name} asked (sha256 {job.rows_sha256[:12]}); "
            f"prepare those again"
        )
    kind, extent = set_kind(catalogue, job), catalogue.benchmarks.extent(benchmark)
    if extent is None or kind.rows_problem(extent):
        why = kind.rows_problem(extent) if extent is not None else "its rows are gone"
        raise RowsDamagedError(f"which rows of {job.benchmark} {job.name} asked cannot be told any more: {why}")
    return kind.sized(extent)


def asked_indices(catalogue: NodeCatalogue, job: JobRow) -> Sequence[int]:
    """Return the index in the prepared set of each row that a job asked. Raises RowsDamagedError."""
    data_dir, benchmark = catalogue.benchmarks.data_dir, catalogue.benchmarks.get(job.benchmark)
    indices = prepared_sets.asked_indices(data_dir, benchmark, asking_kind(catalogue, job), job.row_limit)
    if len(indices) * job.repeats != job.total:
        raise RowsDamagedError(f"which rows of {job.benchmark} {job.name} asked cannot be told any more")
    return indices
