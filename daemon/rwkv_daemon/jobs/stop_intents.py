"""What is wanted of each runner now, and its escalation: go on, finish the batch, stop, or be ended.

The intent follows from what is stored: a job's state, its wanted state, the pauses that cover it. Only a stall is known
here alone; it ends the process at once, and another attempt follows.
"""

import contextlib

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.scheduling.pauses import Pauses
from rwkv_daemon.scheduling.running_jobs import RunnerHandle, RunningJobs
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.queries.jobs import ACTIVE, get_job, jobs_by_id, update_job
from rwkv_daemon.store.queries.pauses_attempts import update_attempt
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.run_directory import Desired
from rwkv_daemon.workers.stop_ladder import Patience, StopLadder, StopStep, climb, told_of

FIRST = {"stop": StopStep.ASK, "pause": StopStep.BATCH, "yield": StopStep.BATCH, "stalled": StopStep.KILL}
"""The first step of the stop ladder for each intent."""
MESSAGES: dict[StopStep, Desired] = {StopStep.NONE: "run", StopStep.BATCH: "pause", StopStep.ASK: "stop"}


def intent_of(job: JobRow, pauses: Pauses) -> str:
    """Return what is wanted of a job's runner; empty if it is to go on."""
    if job.state == "stopping":
        return "stop"
    if job.wanted:
        return "pause"
    return "yield" if pauses.ends(job) else ""


async def apply(records: Records, pauses: Pauses, running: RunningJobs) -> None:
    """Give every runner the intent that follows from what is stored now; those that go on again are told so."""
    for job in await jobs_by_id(records.store, running.runners):
        handle = running.runners.get(job.id)
        if handle is not None and job.state in ACTIVE:
            await intend(records, handle, intent_of(job, pauses) or ("stalled" if handle.stall else ""))


async def intend(records: Records, handle: RunnerHandle, intent: str) -> None:
    """Set the intent of a runner, and take the first step at once."""
    handle.intent = intent
    await escalate(records, handle)


async def escalate(records: Records, handle: RunnerHandle) -> None:
    """Check a runner that is to end, and take the next step if it is due. A step beyond the first is never taken back:
    a runner that was asked to stop ends, and what follows from its end is decided then."""
    ladder = handle.ladder
    if not handle.intent:
        if ladder.step is StopStep.BATCH:
            handle.ladder = StopLadder()
            say(records, handle, StopStep.NONE)
        if ladder.step <= StopStep.BATCH:
            return
    first = max(FIRST.get(handle.intent, StopStep.ASK), ladder.step)
    if await climb(ladder, handle.worker, first, Patience.of(records.config.settings)):
        say(records, handle, ladder.step)
        crash_point("stop-after-rung")
        with contextlib.suppress(StoreError):  # a store that cannot be written does not keep the runner alive
            await write_down(records, handle)


def say(records: Records, handle: RunnerHandle, step: StopStep) -> None:
    """Write the message of a step, if it has one. On a full disk there is no message, and the next step follows in
    time."""
    if step in MESSAGES:
        try:
            records.folder(handle.job).write_desired(MESSAGES[step])
        except OSError as error:
            log.error("j%d: its runner cannot be told to %s: %s", handle.job, MESSAGES[step], error)


async def write_down(records: Records, handle: RunnerHandle) -> None:
    """Store the step, for the next daemon and the operator. What cannot be ended is `stuck`: it is never called
    stopped."""
    step = handle.ladder.step
    job = await get_job(records.store, handle.job)
    assert job is not None
    text = f"{job.name}: its runner (pid {handle.worker.pid}) {step.words}"
    if step is StopStep.STUCK:
        text += f": {await told_of(handle.ladder, handle.worker)}; look at it by hand, it may take a reboot"
    async with records.change() as change:
        stuck = {"state": "stuck"} if step is StopStep.STUCK else {}
        await update_attempt(change.db, handle.job, handle.attempt, rung=int(step), **stuck)
        if stuck:
            await update_job(change.db, job.id, detail=text)
        await change.note("job.pressed", job=job.name, session=job.session, text=text)


def still_running(records: Records, running: RunningJobs, job: JobRow) -> str:
    """Return what still runs of a job that is to end, and what comes next; empty if nothing is to end."""
    handle = running.runners.get(job.id)
    if handle is None or not handle.intent or handle.exit is not None:
        return ""
    if handle.ladder.step is StopStep.STUCK:
        return job.detail
    wait = Patience.of(records.config.settings).on(handle.ladder.step)
    return f"its runner (pid {handle.worker.pid}) {handle.ladder.step.words}; the next step follows after {wait:.0f} s"
