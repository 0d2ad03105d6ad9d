"""A running job compared with the last run of the same kind: its rows so far, paired with the same rows there."""

import asyncio
import json
from array import array
from collections.abc import Iterable
from functools import partial
from statistics import fmean
from typing import Any, Final

from rwkv_daemon.changes.job_view import NO_SHARE
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.compare.pinned_baselines import pinned_for
from rwkv_daemon.rules.comparability import row_numbering
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.samples.paired_reading import count_up, pieces
from rwkv_daemon.store import JobRow, Store, StoreRow
from rwkv_daemon.store.queries.comparing import GradedRun, last_runs, verdict_values
from rwkv_data.scoring import paired_tests
from rwkv_data.scoring.paired_tests import PairedComparison
from rwkvctl.protocol.replies import SoFarReply
from rwkvctl.protocol.views import MetricView

CANDIDATES: Final = 12
"""Runs of the same kind that are looked at for one that asked these rows, the newest."""

SAME: Final = ("configuration", "grading", "numerics", "grader", "grader_version")
"""Columns of a job that must be equal for two runs to have asked and graded alike."""


async def against_previous_run(records: Records, comparisons: Comparisons, job: JobRow) -> SoFarReply:
    """Return the comparison, or why there is none. A run of the model's pinned baseline is preferred, then one of the
    same model."""
    if job.kind.startswith(NO_SHARE):
        return SoFarReply(note=f"{job.kind} does not measure a share of right answers")
    if job.labels_rows:
        return SoFarReply(note="it labels rows, and measures nothing")
    if job.source_job is not None:
        return SoFarReply(note=f"it rewrites j{job.source_job}, and measures nothing")
    before = await last_like(records.store, job)
    if before is None:
        return SoFarReply(note="no other run has finished these rows")
    a, b = (GradedRun(one.id, one.grade_key) for one in (before, job))
    found = await comparisons.questions.answer(
        ("so far", a, b), partial(paired, records.store, a, b, one_each(before, job))
    )
    if isinstance(found, QuestionProgress):
        note = f"still comparing with {before.name}: {found.sentence}"
        return SoFarReply(other=before.name, model=before.model, note=note, looking=True)
    if not found:
        return SoFarReply(other=before.name, model=before.model, note="no row is finished in both")
    [known] = found
    estimate = known.difference
    return SoFarReply(
        other=before.name,
        model=before.model,
        rows=known.rows,
        value=known.b,
        before=known.a,
        difference=MetricView(value=estimate.value, stderr=estimate.stderr, ci_low=estimate.ci_low,
                              ci_high=estimate.ci_high),
        p=known.p,
        test=known.test,
        differs=tuple(name for name in SAME if getattr(job, name) != getattr(before, name)),
    )  # fmt: skip


async def last_like(store: Store, job: JobRow) -> JobRow | None:
    """Return the newest other run that numbers its rows as this job does."""
    numbering = row_numbering(json.loads(job.configuration))
    found = await last_runs(store, job, await pinned_for(store, job.model), CANDIDATES)
    return next((one for one in found if row_numbering(json.loads(one.configuration)) == numbering), None)


def one_each(a: JobRow, b: JobRow) -> bool:
    """Whether both runs have one sample per row."""
    return a.repeats == b.repeats == 1


async def paired(
    store: Store, a: GradedRun, b: GradedRun, verdicts: bool, progress: QuestionProgress
) -> list[PairedComparison]:
    """Compare the rows of both runs whose samples all have a verdict; returns an empty list if there are none."""
    counted = await count_up(store, a, b, progress) if verdicts else None
    if counted is not None:
        return [counted[1]] if counted[1] else []
    means = array("d"), array("d")

    async def read(after: int, upto: int) -> list[list[StoreRow]]:
        return [await verdict_values(store, run, after, upto) for run in (a, b)]

    async for found in pieces(store, (a, b), read, progress):
        ours, theirs = (by_row(rows) for rows in found)
        for row in (row for row in theirs if row in ours):
            means[0].append(ours[row])
            means[1].append(theirs[row])
        await asyncio.sleep(0)
    return [await asyncio.to_thread(paired_tests.pair, *means, verdicts=True)] if means[0] else []


def by_row(found: Iterable[Any]) -> dict[int, float]:
    """Return the mean verdict of each row whose samples all have one."""
    values: dict[int, list[float | None]] = {}
    for one in found:
        values.setdefault(one["row"], []).append(one["value"])
    judged = {row: [value for value in known if value is not None] for row, known in values.items()}
    return {row: fmean(known) for row, known in judged.items() if len(known) == len(values[row])}
