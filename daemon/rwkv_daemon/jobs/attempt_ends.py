"""What follows from the end of a runner: a score, a stop, a hold, a retry, or a failure. One transaction each.

It depends first on what is stored, then on how the runner ended. Handling an end twice is harmless: a job that has
moved on is left alone.
"""

import random
import time
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from rwkv_daemon.catalogue.contents import rows_stamp
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import harness_jobs, kill_counts, regrading
from rwkv_daemon.jobs.label_writer import end_labelling
from rwkv_daemon.jobs.regrading import is_regrade
from rwkv_daemon.jobs.score_writer import OtherWeightsError, finish, store_score
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.rules import outside_kills
from rwkv_daemon.rules.exit_codes import BAD_ROWS, DISK_FULL, OUT_OF_TIME, PAUSED, STOPPED
from rwkv_daemon.rules.exit_rules import Cause, ExitVerdict, Failure, cause_of, classify, how, wait_s
from rwkv_daemon.rules.lifecycle import Transition
from rwkv_daemon.rules.outside_kills import RecentKills
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.queries.jobs import ACTIVE, attempts_of, end_attempt, get_job, update_job
from rwkv_daemon.store.queries.pauses_attempts import update_attempt
from rwkv_daemon.store.queries.samples import count_unjudged
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.stop_ladder import StopStep

LOG_TAIL_BYTES = 4096
DISK_RETRY_S = 15.0
MOST_FORGOTTEN = 50
"""A job at whose start the daemon has died so often is taken for the reason."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An attempt that is over. `record` is its exit, None if it was lost; `stages_before` what was stored when it
    began; `stalled` why it was ended, if it made no progress; `step` how far the stop ladder had gone; `started`: it
    had a process; `forgotten`: it had none, because the daemon died before it started one."""

    job: int
    attempt: int
    record: ShimRecord | None
    why: str = "its process vanished"
    stages_before: int = 0
    stalled: str = ""
    step: int = 0
    started: bool = True
    forgotten: bool = False

    @property
    def cause(self) -> Cause:
        """Return what ended it. An end that the daemon's own signals caused is none from outside."""
        ours = self.stalled or not self.started or self.step >= StopStep.TERM
        return "fault" if ours else cause_of(self.record)

    def was_ended_from_outside(self, verdict: ExitVerdict) -> bool:
        """Whether it was ended from outside: by force, or by a SIGTERM, at which it ends in order."""
        return self.cause == "outside" or (verdict.then == "yield" and not self.step)

    @property
    def code(self) -> int | None:
        return self.record.code if self.record else None

    @property
    def how(self) -> str:
        """Return how the attempt ended, in words for the operator."""
        if self.stalled:
            return f"it was ended because it made no progress: {self.stalled}"
        if self.record and self.record.oom == "cgroup":
            return f"out of memory: it reached runner_memory_max_bytes ({how(self.record)})"
        return how(self.record) if self.record else self.why

    async def write(self, change: Change, failure: Failure | str = "", why: str = "") -> None:
        """Store the end of the attempt, and what was to blame, in the caller's transaction."""
        signal = self.record.signal if self.record else None
        lost = self.record is None
        await end_attempt(change.db, self.job, self.attempt, code=self.code, signal=signal, lost=lost)
        if failure:
            await update_attempt(change.db, self.job, self.attempt, failure=failure, why=why)


async def attempt_ended(work: NodeWork, judges: Judges, catalogue: NodeCatalogue, ending: AttemptEnd) -> None:
    """Take the step that follows from the end of an attempt: score, stop, hold, retry or failure."""
    work.records.folder(ending.job).tidy()
    job = await get_job(work.records.store, ending.job)
    if job is None or job.attempt != ending.attempt or job.state not in ACTIVE:
        async with work.records.change() as change:
            await ending.write(change)
        return
    log_says = last_line(work.records.folder(job.id).log(ending.attempt))
    verdict = classify(ending.code, log_says)
    forgotten = ending.forgotten and await forgotten_in_a_row(work.records, job) < MOST_FORGOTTEN
    if is_complete(work.records, job):
        await all_graded(work.records, judges, catalogue, job, ending)
    elif job.state != "stopping" and job.wanted:
        await put_aside(work.records, job, ending)
    elif job.state != "stopping" and is_regrade(work.records, job):
        await regrade_ended(work.records, work.running, work.engines.kills, job, ending, verdict, log_says)
    elif job.state == "stopping":
        await stopped(work.records, job, ending)
    elif forgotten or (verdict.then == "yield" and (ending.step or work.waiting.pauses.covers(job))):
        await yield_place(work.records, work.waiting, job, ending)
    elif ending.was_ended_from_outside(verdict):
        await killed(work.records, work.running, work.engines.kills, job, ending)
    elif ending.stalled or verdict.then == "retry":
        await crashed(work.records, work.running, job, ending, log_says)
    elif verdict.then == "hold":
        await hold(work.records, work.running, job, ending, verdict, log_says)
    else:
        goes_on = f"; `rwkvctl resume {job.name}` goes on from there" if ending.code == OUT_OF_TIME else ""
        await fail(work.records, job, ending, f"{log_says or ending.how}{goes_on}", verdict.failure)


def is_complete(records: Records, job: JobRow) -> bool:
    """Whether everything that a job was to do is stored."""
    if job.is_harness:
        return harness_jobs.result_of(records, job) is not None
    return 0 < job.total <= job.done


async def forgotten_in_a_row(records: Records, job: JobRow) -> int:
    """Return how many of a job's last attempts, before the present one, had no process because the daemon died."""
    before = (await attempts_of(records.store, job.id))[:-1]
    return sum(1 for _ in takewhile(lambda one: one.state == "lost" and not one.failure, reversed(before)))


async def stopped(records: Records, job: JobRow, ending: AttemptEnd) -> None:
    """Mark a job as stopped, now that its runner has ended."""
    crash_point("stop-before-end")
    async with records.change() as change:
        await ending.write(change)
        await change.move(job, "ended")
    crash_point("stop-after-end")


async def put_aside(records: Records, job: JobRow, ending: AttemptEnd) -> None:
    """Pause or hold a job whose runner has ended as intended; or fail it, if it kills engines."""
    if job.wanted == "fail":
        await fail(records, job, ending, job.wanted_why, "benchmark")
        return
    async with records.change() as change:
        await ending.write(change)
        transition: Transition = "hold" if job.wanted == "hold" else "pause"
        await change.move(job, transition, reason=job.wanted_reason, detail=job.wanted_why, engine=None)


async def yield_place(records: Records, waiting: WaitingJobs, job: JobRow, ending: AttemptEnd) -> None:
    """Return a job to the queue because something wider than the job is paused, or the daemon died before it started a
    process; that counts as no failure."""
    async with records.change() as change:
        await ending.write(change)
        await change.move(job, "yield", detail=waiting.pauses.covers(job), engine=None)


async def regrade_ended(
    records: Records,
    running: RunningJobs,
    kills: RecentKills,
    job: JobRow,
    ending: AttemptEnd,
    verdict: ExitVerdict,
    log_says: str,
) -> None:
    """Handle the end of a runner that grades again: the supervisor starts another, unless it failed too often or cannot
    work; then the job goes back to the grade it had."""
    detail = f"{ending.how}; the log says: {log_says or 'nothing'}"
    sent_off = ending.was_ended_from_outside(verdict)
    free = sent_off or ending.forgotten or ending.code in {STOPPED, PAUSED, DISK_FULL}
    final = verdict.then == "fail" or ending.code == BAD_ROWS or (sent_off and kill_counts.too_often(job, ending.how))
    async with records.change() as change:
        await ending.write(change, "" if free else verdict.failure, detail)
        if sent_off:
            wait = outside_kills.pause_s(
                records.config.settings.restart_backoff_s, kill_counts.counted(job)["kills"], random.Random()
            )
            running.retry_at[job.id] = time.monotonic() + wait
            await kill_counts.tell(
                kills, change, f"the runner that grades {job.name} was ended ({ending.how})", job=job
            )
            await update_job(change.db, job.id, **kill_counts.counted(job))
        if final or (not free and job.restarts >= records.config.settings.max_restarts):
            await regrading.undo(records, change, job, detail)
        else:
            await update_job(change.db, job.id, restarts=job.restarts + (not free), detail=detail)


async def all_graded(
    records: Records, judges: Judges, catalogue: NodeCatalogue, job: JobRow, ending: AttemptEnd
) -> None:
    """Continue a job whose samples have all ended: store its score or its labels, or hand it to the judge."""
    if job.is_harness:
        await harness_ended(records, job, ending)
        return
    if job.labels_rows:
        await end_labelling(records, catalogue, job, ending.write)
        return
    if await count_unjudged(records.store, job.id, job.grade_key):
        async with records.change() as change:
            await ending.write(change)
            asides: dict[str, Transition] = {"pause": "pause", "hold": "hold"}
            aside = asides.get(job.wanted, "judge")
            columns = {"reason": job.wanted_reason, "detail": job.wanted_why} if aside != "judge" else {}
            await change.move(job, "ended" if job.state == "stopping" else aside, engine=None, **columns)
        return
    try:
        await store_score(records, judges, catalogue, job, ending.write)
    except OtherWeightsError as error:
        await fail(records, job, ending, str(error), "model")


async def harness_ended(records: Records, job: JobRow, ending: AttemptEnd) -> None:
    """Store the score of a harness whose result is complete."""
    found = harness_jobs.result_of(records, job)
    assert found is not None
    try:
        view = await harness_jobs.score_view(records, job, found)
        await finish(records, job, view, ending.write, total=job.done)
    except OtherWeightsError as error:
        await fail(records, job, ending, str(error), "model")


async def hold(
    records: Records, running: RunningJobs, job: JobRow, ending: AttemptEnd, verdict: ExitVerdict, detail: str
) -> None:
    """Hold a job until what it lacks is there."""
    if ending.code == BAD_ROWS:
        running.bad_rows[job.id] = rows_stamp(records.config, job.benchmark, job.source_job)
    if ending.code == DISK_FULL:
        running.retry_at[job.id] = time.monotonic() + DISK_RETRY_S
    async with records.change() as change:
        await ending.write(change, verdict.failure, detail)
        await change.move(job, "hold", reason=verdict.reason, detail=detail, engine=None)


async def hold_without_rows(records: Records, number: int, ending: AttemptEnd) -> None:
    """Hold a job that was not started, as what it was dispatched with is not there."""
    job = await get_job(records.store, number)
    if job is not None and job.state in ACTIVE:
        async with records.change() as change:
            await ending.write(change, "benchmark", ending.why)
            stops = job.state == "stopping"
            columns = {} if stops else {"reason": "data-missing"}
            await change.move(job, "ended" if stops else "hold", detail=ending.why, engine=None, **columns)


async def crashed(records: Records, running: RunningJobs, job: JobRow, ending: AttemptEnd, log_says: str) -> None:
    """Try again after a while, unless the job has crashed too often without progress."""
    settings = records.config.settings
    restarts = 0 if job.stages_done > ending.stages_before else job.restarts
    detail = f"{ending.how}; the log says: {log_says or 'nothing'}"
    if restarts >= settings.max_restarts:
        await fail(records, job, ending, detail, "infrastructure")
        return
    wait = wait_s(settings.restart_backoff_s, restarts, random.Random())
    running.retry_at[job.id] = time.monotonic() + wait
    async with records.change() as change:
        await ending.write(change, "infrastructure", detail)
        text = f"again in {wait:.0f} s: {detail}"
        await change.move(job, "retry", reason="retry", detail=text, restarts=restarts + 1, engine=None)


async def killed(records: Records, running: RunningJobs, kills: RecentKills, job: JobRow, ending: AttemptEnd) -> None:
    """Handle a runner that somebody outside ended: it is tried again, more slowly each time, and no try is used up."""
    columns, how_often = kill_counts.counted(job), kill_counts.counted(job)["kills"]
    wait = outside_kills.pause_s(records.config.settings.restart_backoff_s, how_often, random.Random())
    why = kill_counts.too_often(job, f"its runner: {ending.how}")
    async with records.change() as change:
        await ending.write(change, "infrastructure", ending.how)
        await kill_counts.tell(kills, change, f"the runner of {job.name} was ended ({ending.how})", job=job)
        if why:
            await change.move(job, "hold", reason="killed", detail=why, engine=None, **columns)
            return
        running.retry_at[job.id] = time.monotonic() + wait
        times = f", {how_often} times in a row" if how_often > 1 else ""
        text = f"again in {wait:.0f} s: its runner was ended ({ending.how}){times}"
        await change.move(job, "retry", reason="retry", detail=text, engine=None, **columns)


async def fail(records: Records, job: JobRow, ending: AttemptEnd, detail: str, failure: Failure) -> None:
    """Fail the job; its samples stay."""
    async with records.change() as change:
        await ending.write(change, failure, detail)
        stops = job.state == "stopping"
        blame = {} if stops else {"failure": failure}
        await change.move(job, "ended" if stops else "fail", detail=detail, engine=None, **blame)


async def give_up(records: Records, number: int, attempt: int, detail: str) -> None:
    """Fail one job that cannot be handled, with the error; everything else goes on."""
    job = await get_job(records.store, number)
    if job is not None and job.state in ACTIVE:
        await fail(
            records,
            job,
            AttemptEnd(number, attempt, None),
            f"internal error of the daemon: {detail}",
            "infrastructure",
        )


async def settle(work: NodeWork, judges: Judges, catalogue: NodeCatalogue, job: JobRow) -> None:
    """Handle a job that should be running and has no runner: the daemon died, or could not write, between two steps."""
    await handled(
        work,
        judges,
        catalogue,
        AttemptEnd(job.id, job.attempt, None, "it had no runner", job.stages_done, started=False),
    )


async def handled(work: NodeWork, judges: Judges, catalogue: NodeCatalogue, ending: AttemptEnd) -> None:
    """Handle the end of an attempt; an unexpected error fails this one job, not the daemon."""
    try:
        await attempt_ended(work, judges, catalogue, ending)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - one job fails with it instead of all
        log.exception("j%d: what its runner did cannot be handled", ending.job)
        await give_up(work.records, ending.job, ending.attempt, f"{type(error).__name__}: {error}")


def last_line(path: Path) -> str:
    """Return the last line of a log that is not blank."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            data = file.read()
    except FileNotFoundError:
        return ""
    lines = [line for line in data.decode(errors="replace").split("\n") if line.strip()]
    return lines[-1].strip() if lines else ""
