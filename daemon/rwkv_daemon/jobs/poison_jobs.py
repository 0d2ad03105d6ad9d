"""Which job is to blame when engines die: the poison job that would end every engine of its model.

Each death of an engine counts with every job that ran there, until that job makes progress. From the second death on,
suspects are tried one at a time: other jobs for such an engine wait meanwhile (`Pauses.trials`). A job under which
engines die even alone fails; one that makes progress is innocent, and the next is tried.
"""

from collections.abc import Sequence
from typing import Final

from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.stop_intents import apply
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import ACTIVE, get_job, update_job

PROGRESS: Final = 64
"""Completions after which a job counts as making progress: a batch, more than a bad row leaves its neighbours."""
SUSPECT: Final = 2
TRIED = ("queued", *ACTIVE)


def deaths(job: JobRow) -> int:
    """Return how many engines died under a job without progress, including the one that died just now."""
    return 1 if job.stages_done - job.died_at >= PROGRESS else job.engine_deaths + 1


def suspect_of(counted: Sequence[tuple[JobRow, int]]) -> JobRow | None:
    """Return the job to try alone: the one under which most engines died, of several such the first."""
    suspects = [(count, -job.id, job) for job, count in counted if count >= SUSPECT]
    return max(suspects, key=lambda one: one[:2])[2] if suspects else None


def is_poison(counted: Sequence[tuple[JobRow, int]], limit: int) -> bool:
    """Whether there was only one job on the engine, and it has used up its tries."""
    return len(counted) == 1 and counted[0][1] >= limit


async def engine_died(records: Records, waiting: WaitingJobs, running: RunningJobs, engine: int, why: str) -> bool:
    """Count a death with the jobs that the engine served; returns False if it served none."""
    numbers = [n for n, handle in running.runners.items() if engine in {handle.engine, *handle.endpoints}]
    found = [job for number in numbers if (job := await get_job(records.store, number)) is not None]
    counted = [(job, deaths(job)) for job in found if job.state in ACTIVE and job.state != "stopping"]
    if not counted:
        return False
    async with records.change() as change:
        for job, count in counted:
            await update_job(change.db, job.id, engine_deaths=count, died_at=job.stages_done)
        if is_poison(counted, limit_of(records)):
            await convict(waiting, change, *counted[0], why)
        elif (suspect := suspect_of(counted)) is not None and len(counted) > 1:
            await try_alone(waiting, change, suspect)
    await apply(records, waiting.pauses, running)
    return True


async def is_suspected(records: Records, running: RunningJobs, engine: int) -> bool:
    """Whether engines died before under a job that ran there: such a job ends engines on any GPU, so the death says
    nothing about the GPU."""
    numbers = [n for n, handle in running.runners.items() if engine in {handle.engine, *handle.endpoints}]
    found = [await get_job(records.store, number) for number in numbers]
    return any(job is not None and job.engine_deaths >= SUSPECT for job in found)


def limit_of(records: Records) -> int:
    """Return the number of deaths that convict a job. The runner itself needs three to find and give up the one sample
    that kills engines."""
    return SUSPECT * max(2, records.config.settings.max_restarts)


async def convict(waiting: WaitingJobs, change: Change, job: JobRow, count: int, why: str) -> None:
    """Mark the job to fail once its runner has ended."""
    detail = f"{count} engines ended under it, and no other job was there: {why}"
    await update_job(change.db, job.id, wanted="fail", wanted_why=detail)
    await change.note("job.poison", job=job.name, session=job.session, text=f"{job.name} fails alone: {detail}")
    waiting.pauses.trials.pop(kind_of(job), None)


async def try_alone(waiting: WaitingJobs, change: Change, job: JobRow) -> None:
    """Let the other jobs for such an engine wait until this one has made progress, or an engine has died under it."""
    if waiting.pauses.trials.get(kind_of(job)) != job.id:
        waiting.pauses.trials[kind_of(job)] = job.id
        text = f"{job.name} runs alone: engines died under it and others, and it is the first suspect"
        await change.note("job.trial", job=job.name, session=job.session, text=text)


def kind_of(job: JobRow) -> EngineKind:
    return EngineKind(job.weights_sha256, job.numerics)


async def end_trials(records: Records, waiting: WaitingJobs, running: RunningJobs) -> None:
    """Let the other jobs go on if a suspect has made progress, has ended, or does not run for another reason."""
    for kind, number in list(waiting.pauses.trials.items()):
        job = await get_job(records.store, number)
        if job is None or job.state not in TRIED or job.wanted or job.stages_done - job.died_at >= PROGRESS:
            del waiting.pauses.trials[kind]
            if job is not None:
                async with records.change() as change:
                    await update_job(change.db, job.id, engine_deaths=0)
                    text = f"{job.name} is not to blame for engines that died; others go on beside it"
                    await change.note("job.trial", job=job.name, session=job.session, text=text)
            await apply(records, waiting.pauses, running)
