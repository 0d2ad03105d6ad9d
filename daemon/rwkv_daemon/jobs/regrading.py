"""Grading again: stored completions by the present grader, as a new grade beside the old one, without an engine.

A job that is being graded again is `grading` without an engine; the supervisor gives it a runner, as often as it needs
one. If it cannot be done, the job goes back to the grade it had. A grader of the same version grades only samples
without a verdict again (an error, a judge that did not answer).
"""

import json
from dataclasses import replace

import msgspec

from rwkv_daemon.catalogue import contents, second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.rules import work_keys
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import as_json
from rwkv_daemon.store.queries.samples import count_unjudged, forget_errors, refresh_counts, score_of
from rwkv_daemon.store.queries.verdicts import ask_again
from rwkvctl.protocol.endpoints import is_endpoint
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.views import ScoreView


def is_regrade(records: Records, job: JobRow) -> bool:
    """Whether a job is being graded again, which needs no engine. A job of a model behind an endpoint never has one, so
    what its runner was told decides; if it was told of another grade key, none has been told of this one yet."""
    if job.state not in {"grading", "stopping"} or job.engine is not None:
        return False
    if not is_endpoint(job.weights_path):
        return True
    told = records.folder(job.id).read_spec()
    return told.regrade or told.grade_key != job.grade_key


async def regrade(records: Records, running: RunningJobs, catalogue: NodeCatalogue, job: JobRow) -> JobRow:
    """Begin to grade a finished job again. Raises RefusedError with the reason if it cannot be."""
    check(records, running, catalogue, job)
    benchmark = catalogue.benchmarks.all()[job.benchmark]
    fact = contents.kind_fact(catalogue.benchmarks, benchmark, benchmark.kinds[job.kind], json.loads(job.settings))
    key = work_keys.grade_key(job.generation_key, fact.grader, fact.grader_version, fact.grading)
    if key == job.grade_key:
        return await again(records, job)
    columns = {
        "grade_key": key,
        "grader": fact.grader,
        "grader_version": fact.grader_version,
        "grading": as_json(dict(fact.grading)),
    }
    async with records.change() as change:
        return await begin(change, job, **columns)


async def again(records: Records, job: JobRow) -> JobRow:
    """Grade the samples without a verdict once more with the same grader."""
    waiting = await count_unjudged(records.store, job.id, job.grade_key)
    async with records.change() as change:
        errors = await forget_errors(change.db, job.id, job.grade_key)
        await ask_again(change.db, job.id, job.grade_key)
        counts = await refresh_counts(change.db, job.id, job.grade_key)
        if counts.done < job.total:
            return await begin(change, job)
        if not waiting:
            raise RefusedError("graded", f"{job.name} is graded by {job.grader} {job.grader_version} already.")
        assert not errors, "what was forgotten is missing"
        return await change.move(job, "rejudge", finished="")


async def begin(change: Change, job: JobRow, **columns: str) -> JobRow:
    """Store, in the caller's transaction, the new key and that the job is to be graded."""
    key = columns.get("grade_key", job.grade_key)
    counts = await refresh_counts(change.db, job.id, key)
    return await change.move(
        replace(job, done=counts.done, right_sum=counts.right_sum, judged=counts.judged),
        "regrade", restarts=0, kills=0, finished="", engine=None, **columns,
    )  # fmt: skip


async def undo(records: Records, change: Change, job: JobRow, why: str) -> JobRow:
    """Return the job to the grade it had, as it cannot be graded again; a job without a score fails."""
    stored = await score_of(records.store, job.id)
    if stored is None:
        return await change.move(job, "fail", detail=why)
    known = msgspec.json.decode(stored, type=ScoreView).provenance
    columns = {name: known[name] for name in ("grade_key", "grader", "grader_version")}
    columns["grading"] = as_json(known.get("grading", {}))
    await refresh_counts(change.db, job.id, str(known["grade_key"]))
    return await change.move(job, "finish", detail=f"grading again failed: {why}", **columns)


def check(records: Records, running: RunningJobs, catalogue: NodeCatalogue, job: JobRow) -> None:
    """Raise RefusedError unless the job can be graded again: it must be generated completely, by this node, and of a
    kind that still exists."""
    benchmark = catalogue.benchmarks.all().get(job.benchmark)
    if job.id in running.runners or job.state not in {"done", "failed", "stopped"}:
        raise RefusedError("running", f"{job.name} is {job.state}; it can be graded again when it is done.")
    if second_names.is_same_work(job):
        raise RefusedError("same-work", f"{job.name} has no completions of its own: it {job.detail}.")
    if job.is_harness:
        name, _, task = job.benchmark.partition(":")
        hint = f"`rwkvctl dispatch --harness {name} --only-datasets {task} --overwrite` measures it again."
        raise RefusedError("is-harness", f"{job.name} is graded by the harness itself.", hint)
    if job.labels_rows:
        raise RefusedError("is-labelling", f"{job.name} labels rows: it has no answers to grade.")
    if not job.total or (job.done < job.total and job.stages_done < job.stages_total):
        raise RefusedError("incomplete", f"{job.name} has {job.stages_done} of {job.stages_total} completions.")
    if benchmark is None or job.kind not in benchmark.kinds:
        raise RefusedError("no-such-kind", f"This version has no {job.benchmark} {job.kind}.")
    if not records.folder(job.id).path.is_dir():
        raise RefusedError("no-completions", f"The completions of {job.name} are not on this node.")
