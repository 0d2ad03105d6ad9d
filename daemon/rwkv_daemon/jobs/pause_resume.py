"""What an operator does with jobs: stop, pause, hold, release, resume; and pauses that are wider than one job.

The intent is stored before anything is done. A running job is paused or held when its runner has ended, which keeps
what it has done; until then it shows that it is about to be. After the transaction, `stop_intents.apply` carries it
out.
"""

from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.stop_intents import apply
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.rules import lifecycle
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.pauses import Pause, Scope
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import ACTIVE, forget_load_failures, update_job
from rwkv_daemon.store.queries.leases import forget_fit
from rwkv_daemon.store.queries.pauses_attempts import add_pause, all_pauses, remove_pause
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.states import Reason


async def load(records: Records, waiting: WaitingJobs) -> None:
    """Load the pauses that were in force when the last daemon ended."""
    for row in await all_pauses(records.store):
        pause = Pause(*row)
        waiting.pauses.standing[pause.scope, pause.name] = pause


async def pause_all(work: NodeWork, judges: Judges, scope: Scope, name: str, who: str, why: str) -> None:
    """Pause the queue, a model, a group or the judge; or drain the node."""
    pause = Pause(scope, name, now(), who, why)
    async with work.records.change() as change:
        await add_pause(change.db, (pause.scope, pause.name, pause.at, pause.who, pause.why))
        await change.note("pause", text=pause.sentence, data={"scope": scope, "name": name})
    work.waiting.pauses.standing[scope, name] = pause
    pause_the_judge(work.waiting, judges)
    await apply(work.records, work.waiting.pauses, work.running)


async def lift(work: NodeWork, judges: Judges, scope: Scope, name: str, who: str) -> None:
    """Lift such a pause, if there is one."""
    pause = work.waiting.pauses.standing.get((scope, name))
    if pause is None:
        return
    async with work.records.change() as change:
        await remove_pause(change.db, scope, name)
        await change.note("pause", text=f"{pause.what} no more ({who})", data={"scope": scope, "name": name})
    del work.waiting.pauses.standing[scope, name]
    pause_the_judge(work.waiting, judges)
    await apply(work.records, work.waiting.pauses, work.running)


def pause_the_judge(waiting: WaitingJobs, judges: Judges) -> None:
    """Pause judge and checker while the judge is paused."""
    pause = waiting.pauses.standing.get(("judge", ""))
    for service in filter(None, (judges.judge, judges.checker)):
        service.pause(pause.sentence if pause else "")


async def stop_in(running: RunningJobs, judges: Judges, change: Change, job: JobRow) -> JobRow:
    """Stop a job: at once, unless it has a runner, which has to end first."""
    moved = await change.move(job, "stop")
    if moved.state == "stopping" and job.id not in running.runners:
        cancel_judging(judges, job)
        moved = await change.move(moved, "ended")
    return moved


async def put_aside(
    work: NodeWork, judges: Judges, job: JobRow, wanted: lifecycle.Transition, reason: Reason, why: str
) -> None:
    """Pause or hold one job, in a transaction of its own."""
    async with work.records.change() as change:
        await put_aside_in(judges, change, job, wanted, reason, why)
    await apply(work.records, work.waiting.pauses, work.running)


async def put_aside_in(
    judges: Judges, change: Change, job: JobRow, wanted: lifecycle.Transition, reason: Reason | str, why: str
) -> JobRow:
    """Pause or hold a job: at once, or when its runner has ended. Asking again changes nothing."""
    if job.state == "held":
        await update_job(change.db, job.id, reason=reason, detail=why)
        return job
    if job.state not in ACTIVE or job.state == "judging":
        cancel_judging(judges, job)
        return await change.move(job, wanted, reason=reason, detail=why)
    if (job.wanted, job.wanted_reason, job.wanted_why) != (wanted, reason, why):
        await update_job(change.db, job.id, wanted=wanted, wanted_reason=reason, wanted_why=why)
        text = f"{job.name} is to be {'paused' if wanted == 'pause' else 'held'} after its batch"
        await change.note("job.wanted", job=job.name, session=job.session, text=f"{text}: {why}" if why else text)
    return job


def cancel_judging(judges: Judges, job: JobRow) -> None:
    """Send no more requests for this job; the verdicts that are there stay."""
    if job.state == "judging" and judges.judge is not None:
        judges.judge.cancel_job(job.name)


async def resume_in(
    waiting: WaitingJobs, running: RunningJobs, engines: Engines, change: Change, job: JobRow
) -> JobRow:
    """Resume a job that is stopped, failed, paused or held, or about to be paused or held. Restarts, and failures of
    its engine, count anew. A job that never got its keys is held until it has; one that an operator held when it was
    stopped is held again."""
    if job.wanted:
        await update_job(change.db, job.id, wanted="", wanted_reason="", wanted_why="")
        await change.note(
            "job.wanted", job=job.name, session=job.session, text=f"{job.name} goes on, as it was resumed"
        )
        return job
    running.retry_at.pop(job.id, None)
    engines.back_off.pop(EngineKind(job.weights_sha256, job.numerics), None)
    await forget_load_failures(change.db, job.weights_sha256)
    await forget_fit(change.db, job.weights_sha256)
    engines.leasing.forget(job.weights_sha256)
    if (job.state, job.reason) == ("stopped", "held"):
        moved = await change.move(job, "resume", restarts=0, finished="", engine=None)
        return await change.move(moved, "hold", reason="held", detail=job.detail)
    fresh = {"restarts": 0, "finished": "", "engine": None, "engine_deaths": 0, "kills": 0}
    if job.total and job.done >= job.total and lifecycle.allows(job.state, "rejudge"):
        return await change.move(job, "rejudge", **fresh)
    if job.total and job.stages_done >= job.stages_total and lifecycle.allows(job.state, "regrade"):
        return await change.move(job, "regrade", **fresh)
    moved = await change.move(job, "resume", **fresh)
    if moved.generation_key:
        return moved
    waiting.held_scan.surroundings, waiting.look_at_held = (), True
    reason: Reason = "data-missing" if moved.weights_sha256 else "weights-hashing"
    return await change.move(moved, "hold", reason=reason, detail="waits until its weights and rows are identified")
