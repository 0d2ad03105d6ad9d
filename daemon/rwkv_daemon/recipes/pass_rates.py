"""How many samples of each row of a prepared set are right, from the grades of finished jobs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rwkv_daemon.catalogue import second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.asked_rows import asked_indices
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.recipes.graded_samples import RowVerdicts, row_verdicts
from rwkv_data.scoring import metric_names
from rwkvctl.protocol.errors import Exit, RefusedError


class JobVerdicts(NamedTuple):
    """The verdicts of a job under the grade key that it had when they were read."""

    job: JobRow
    rows: list[RowVerdicts]


class RowCounts(NamedTuple):
    """Which rows of a set jobs asked, and how many samples of each have a verdict and are right, by the row's index in
    the set."""

    asked: set[int]
    right: Counter[int]
    verdicts: Counter[int]


async def verdicts_of(
    records: Records, catalogue: NodeCatalogue, benchmark: str, jobs: Sequence[JobRow]
) -> list[JobVerdicts]:
    """Return the verdicts of jobs on the rows of a benchmark. Raises RefusedError if a job has none."""
    for job in jobs:
        check(catalogue, benchmark, job)
    return [JobVerdicts(job, [rows async for rows in row_verdicts(records.store, job)]) for job in jobs]


def check(catalogue: NodeCatalogue, benchmark: str, job: JobRow) -> None:
    """Raise RefusedError if the samples of a job say nothing of how difficult these rows are."""
    if job.benchmark != benchmark:
        raise refusal("other-benchmark", f"{job.name} asked {job.benchmark}, not {benchmark}.")
    if job.source_job is not None:
        raise refusal("is-rewriting", f"{job.name} rewrites right samples only: name j{job.source_job}.")
    if job.labels_rows:
        raise refusal("is-labelling", f"{job.name} labels rows: it has no answers, right or wrong.")
    if job.state != "done":
        raise refusal("not-done", f"{job.name} is {job.state}; its verdicts count when it is done.")
    if second_names.is_same_work(job):
        raise refusal("same-work", f"{job.name} has no samples of its own: it {job.detail}.")
    kind = catalogue.benchmarks.kind_of(benchmark, job.kind)
    if metric_names.unit(metric := kind.metrics[0]) != "share":
        raise refusal("no-verdicts", f"{job.name} measures {metric}: no sample of it is right or wrong.")
    if kind.search is not None:
        raise refusal("is-search", f"{job.name} searches for settings: its samples are not alike.")


def refusal(code: str, sentence: str) -> RefusedError:
    return RefusedError(code, sentence, "", Exit.REFUSED)


def counted(catalogue: NodeCatalogue, jobs: Sequence[JobVerdicts]) -> RowCounts:
    """Return the verdicts of several jobs together. Raises RowsDamagedError if the rows are not those that they asked
    any more."""
    counts = RowCounts(set(), Counter(), Counter())
    for job, rows in jobs:
        indices = asked_indices(catalogue, job)
        counts.asked.update(indices)
        for row in rows:
            counts.right[indices[row.row]] += row.right
            counts.verdicts[indices[row.row]] += row.verdicts
    return counts
