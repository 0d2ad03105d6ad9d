"""How a job does against the last run of the same: its rows so far, paired with the same rows there."""

import asyncio
from collections.abc import Iterable
from statistics import fmean
from typing import Any, Final

from rwkv_daemon.jobview import NO_SHARE
from rwkv_daemon.node import Node
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.comparing import last_run, verdicts
from rwkv_data import comparison
from rwkvctl.protocol.messages import MetricView, SoFarReply

SAME: Final = ("configuration", "grading", "numerics", "grader", "grader_version")
"""Columns of a job that must be equal for two runs to have asked and graded alike."""


async def so_far(node: Node, job: JobRow) -> SoFarReply:
    """The comparison, or why there is none. The same model's last run counts before another model's."""
    if job.kind.startswith(NO_SHARE):
        return SoFarReply(note=f"what {job.kind} measures is no share of right answers")
    before = await last_run(node.store, job)
    if before is None:
        return SoFarReply(note="nothing to compare with: these rows were never finished in another run")
    ours, theirs = [await verdicts(node.store, one.id, one.grade_key) for one in (job, before)]
    found = await asyncio.to_thread(paired, ours, theirs)
    if found is None:
        return SoFarReply(other=before.name, model=before.model, note="no row is finished in both")
    estimate = found.difference
    return SoFarReply(
        other=before.name,
        model=before.model,
        rows=found.rows,
        value=found.b,
        before=found.a,
        difference=MetricView(value=estimate.value, stderr=estimate.stderr, ci_low=estimate.ci_low,
                              ci_high=estimate.ci_high),
        p=found.p,
        test=found.test,
        differs=tuple(name for name in SAME if getattr(job, name) != getattr(before, name)),
    )  # fmt: skip


def paired(ours: Iterable[Any], theirs: Iterable[Any]) -> comparison.Paired | None:
    """Rows of both sides whose samples all have a verdict, compared; None if there are none."""
    a, b = by_row(theirs), by_row(ours)
    shared = [row for row in b if row in a]
    if not shared:
        return None
    return comparison.pair([a[row] for row in shared], [b[row] for row in shared], verdicts=True)


def by_row(found: Iterable[Any]) -> dict[int, float]:
    """The mean verdict of each row that has all of its verdicts."""
    values: dict[int, list[float | None]] = {}
    for one in found:
        values.setdefault(one["row"], []).append(one["value"])
    judged = {row: [value for value in known if value is not None] for row, known in values.items()}
    return {row: fmean(known) for row, known in judged.items() if len(known) == len(values[row])}
