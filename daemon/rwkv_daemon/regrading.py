"""Grading again: stored completions by the present grader, as a new grade beside the old one, without an engine.

A grader of the same version is asked again only for what has no verdict (an error, a judge that could not be had).
"""

import json
from dataclasses import replace

from rwkv_daemon import catalogue, keys
from rwkv_daemon.node import Node
from rwkv_daemon.runners import start_runner
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.jobs import as_json, update_job
from rwkv_daemon.store.samples import count_unjudged, forget_errors, refresh_counts
from rwkvctl.protocol.errors import RefusedError


async def regrade(node: Node, job: JobRow) -> JobRow:
    """Begin to grade a finished job again. Raises RefusedError with the reason if that means nothing."""
    check(node, job)
    benchmark = node.benchmarks.all()[job.benchmark]
    fact = catalogue.kind_fact(node.benchmarks, benchmark, benchmark.kinds[job.kind], json.loads(job.settings))
    key = keys.grade_key(job.generation_key, fact.grader, fact.grader_version, fact.grading)
    if key == job.grade_key:
        return await again(node, job)
    graded = replace(
        job, grade_key=key, grader=fact.grader, grader_version=fact.grader_version, grading=as_json(dict(fact.grading))
    )
    columns = ("grade_key", "grader", "grader_version", "grading")
    async with node.change() as change:
        await update_job(change.db, job.id, **{name: getattr(graded, name) for name in columns})
    return await begin(node, graded)


async def again(node: Node, job: JobRow) -> JobRow:
    """The same grader once more, for what it gave no verdict on."""
    waiting = await count_unjudged(node.store, job.id, job.grade_key)
    async with node.change() as change:
        errors = await forget_errors(change.db, job.id, job.grade_key)
        if not errors and not waiting:
            raise RefusedError("graded", f"{job.name} is graded by {job.grader} {job.grader_version} already.")
        if not errors:
            return await change.move(job, "rejudge", finished="")
    return await begin(node, job)


async def begin(node: Node, job: JobRow) -> JobRow:
    """Start a runner that only grades."""
    async with node.change() as change:
        await update_job(change.db, job.id, restarts=0, finished="")
        counts = await refresh_counts(change.db, job.id, job.grade_key)
    graded = replace(job, restarts=0, finished="", done=counts.done, right_sum=counts.right_sum)
    await start_runner(node, graded, None)
    return graded


def check(node: Node, job: JobRow) -> None:
    """Only what is generated whole, by this node, and of a kind that still exists, can be graded again."""
    benchmark = node.benchmarks.all().get(job.benchmark)
    if job.id in node.runners or job.state not in {"done", "failed", "stopped"}:
        raise RefusedError("running", f"{job.name} is {job.state}; it can be graded again when it is done.")
    if job.stages_done < job.stages_total or not job.total:
        raise RefusedError("incomplete", f"{job.name} has {job.stages_done} of {job.stages_total} completions.")
    if benchmark is None or job.kind not in benchmark.kinds:
        raise RefusedError("no-such-kind", f"This version has no {job.benchmark} {job.kind}.")
    if not node.folder(job.id).path.is_dir():
        raise RefusedError("no-completions", f"The completions of {job.name} are not on this node.")
