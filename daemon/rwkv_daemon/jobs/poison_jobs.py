"""Which job is to blame when engines die: the poison that would take every engine of its model along.

Each death of an engine counts with every job that ran there, until that job gets on. From the second on, suspects are
tried one at a time: the others that need such an engine wait meanwhile (`Pauses.trials`). One that engines die under
even alone fails, by itself; one that gets on is innocent, and the next is tried.
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
"""Completions after which a job counts as getting on: a batch, more than a bad row leaves its neighbours."""
SUSPECT: Final = 2
TRIED = ("queued", *ACTIVE)


def deaths(job: JobRow) -> int:
    """How many engines died under a job without its getting on, the one that died just now included."""
    return 1 if job.stages_done - job.died_at >= PROGRESS else job.engine_deaths + 1


def suspect_of(counted: Sequence[tuple[JobRow, int]]) -> JobRow | None:
    """The job to try alone: the one that most engines died under, of several such the first."""
    suspects = [(count, -job.id, job) for job, count in counted if count >= SUSPECT]
    return max(suspects, key=lambda one: one[:2])[2] if suspects else None


def is_poison(counted: Sequence[tuple[JobRow, int]], limit: int) -> bool:
    """Whether the only job that ran there has had its chances."""
    return len(counted) == 1 and counted[0][1] >= limit


async def engine_died(records: Records, waiting: WaitingJobs, running: RunningJobs, engine: int, why: str) -> bool:
    """An engine ended unasked: count that with the jobs it served. False if it served none."""
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
    """Whether engines died before under a job that ran there: one that takes its death along from GPU to GPU says
    nothing of the last of them."""
    numbers = [n for n, handle in running.runners.items() if engine in {handle.engine, *handle.endpoints}]
    found = [await get_job(records.store, number) for number in numbers]
    return any(job is not None and job.engine_deaths >= SUSPECT for job in found)


def limit_of(records: Records) -> int:
    """Deaths that convict. The runner itself needs three to find the one sample that kills engines, and gives it up."""
    return SUSPECT * max(2, records.config.settings.max_restarts)


async def convict(waiting: WaitingJobs, change: Change, job: JobRow, count: int, why: str) -> None:
    """Have the job fail once its runner has ended."""
    detail = f"{count} engines ended under it, and no other job was there: {why}"
    await update_job(change.db, job.id, wanted="fail", wanted_why=detail)
    await change.note("job.poison", job=job.name, session=job.session, text=f"{job.name} fails alone: {detail}")
    waiting.pauses.trials.pop(kind_of(job), None)


async def try_alone(waiting: WaitingJobs, change: Change, job: JobRow) -> None:
    """Let the other jobs of its kind wait until it has got on, or has shown itself."""
    if waiting.pauses.trials.get(kind_of(job)) != job.id:
        waiting.pauses.trials[kind_of(job)] = job.id
        text = f"{job.name} goes on alone: engines died under it and others, and it is the first suspect"
        await change.note("job.trial", job=job.name, session=job.session, text=text)


def kind_of(job: JobRow) -> EngineKind:
    return EngineKind(job.weights_sha256, job.numerics)


async def end_trials(records: Records, waiting: WaitingJobs, running: RunningJobs) -> None:
    """Let the others go on where a suspect has got on, has ended, or does not run for another reason."""
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
