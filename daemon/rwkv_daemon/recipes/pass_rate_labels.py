"""Labels of problems by the share of their samples that is right, from the grades of finished jobs."""

import asyncio
from collections.abc import Sequence

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.recipes import pass_rates
from rwkv_daemon.recipes.pass_rates import JobVerdicts
from rwkv_daemon.store import JobRow
from rwkv_data.labels import label_file, pass_rate
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels
from rwkv_data.labels.publishing import publish_labels
from rwkv_data.prepare import prepared_sets


async def label(
    records: Records, catalogue: NodeCatalogue, benchmark: str, jobs: Sequence[JobRow], field: str
) -> StoredLabels:
    """Publish the labels of a benchmark's rows. Samples of several jobs count together. Raises RefusedError if a job
    has no verdicts on these rows, and DataError."""
    found = await pass_rates.verdicts_of(records, catalogue, benchmark, jobs)
    return await asyncio.to_thread(published, catalogue, benchmark, found, field)


def published(catalogue: NodeCatalogue, benchmark: str, jobs: Sequence[JobVerdicts], field: str) -> StoredLabels:
    """Count the verdicts of each row of the set, and publish its labels. Raises DataError."""
    data_dir, known = catalogue.benchmarks.data_dir, catalogue.benchmarks.get(benchmark)
    manifest = prepared_sets.current_manifest(data_dir, known)
    label_file.check_field(field, prepared_sets.fields_of(data_dir, known, manifest).kinds)
    counts = pass_rates.counted(catalogue, jobs)
    values = [pass_rate.difficulty(counts.right[index], counts.verdicts[index]) for index in range(manifest.rows)]
    undecided = sum(not counts.verdicts[index] for index in counts.asked)
    origin = LabelOrigin(
        rule=pass_rate.LABEL,
        source=", ".join(f"{job.name} ({job.model}, {job.kind}, {job.repeats} samples a row)" for job, _ in jobs),
        unlabelled={pass_rate.NOT_ASKED: manifest.rows - len(counts.asked), pass_rate.NO_VERDICT: undecided},
        facts={job.name: job.grade_key for job, _ in jobs},
    )
    return publish_labels(data_dir, known, manifest.sha256, field, origin, values)
