"""Labels of problems by the share of their samples that is right, from the grades of finished jobs."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rwkv_daemon.catalogue import second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.asked_rows import asked_indices
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.recipes.graded_samples import RowVerdicts, row_verdicts
from rwkv_data.labels import label_file, pass_rate
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels
from rwkv_data.labels.publishing import publish_labels
from rwkv_data.prepare import prepared_sets
from rwkv_data.scoring import metric_names
from rwkvctl.protocol.errors import Exit, RefusedError


class JobVerdicts(NamedTuple):
    """The verdicts of a job under the grade key that it had when they were read."""

    job: JobRow
    rows: list[RowVerdicts]


async def label(
    records: Records, catalogue: NodeCatalogue, benchmark: str, jobs: Sequence[JobRow], field: str
) -> StoredLabels:
    """Publish the labels of a benchmark's rows. Samples of several jobs count together. Raises RefusedError if a job
    has no verdicts on these rows, and DataError."""
    for job in jobs:
        check(catalogue, benchmark, job)
    found = [JobVerdicts(job, [rows async for rows in row_verdicts(records.store, job)]) for job in jobs]
    return await asyncio.to_thread(published, catalogue, benchmark, found, field)


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


def published(catalogue: NodeCatalogue, benchmark: str, jobs: Sequence[JobVerdicts], field: str) -> StoredLabels:
    """Count the verdicts of each row of the set, and publish its labels. Raises DataError."""
    data_dir, known = catalogue.benchmarks.data_dir, catalogue.benchmarks.get(benchmark)
    manifest = prepared_sets.current_manifest(data_dir, known)
    label_file.check_field(field, prepared_sets.fields_of(data_dir, known, manifest).kinds)
    asked, right, verdicts = set[int](), Counter[int](), Counter[int]()
    for job, rows in jobs:
        indices = asked_indices(catalogue, job)
        asked.update(indices)
        for row in rows:
            right[indices[row.row]] += row.right
            verdicts[indices[row.row]] += row.verdicts
    values = [pass_rate.difficulty(right[index], verdicts[index]) for index in range(manifest.rows)]
    undecided = sum(not verdicts[index] for index in asked)
    origin = LabelOrigin(
        rule=pass_rate.LABEL,
        source=", ".join(f"{job.name} ({job.model}, {job.kind}, {job.repeats} samples a row)" for job, _ in jobs),
        unlabelled={pass_rate.NOT_ASKED: manifest.rows - len(asked), pass_rate.NO_VERDICT: undecided},
        facts={job.name: job.grade_key for job, _ in jobs},
    )
    return publish_labels(data_dir, known, manifest.sha256, field, origin, values)
