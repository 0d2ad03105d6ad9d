"""Answers to requests that stop, resume, pause, hold or reprioritise jobs. Many jobs are changed in transactions of
some hundreds: ten thousand then take seconds, and other requests get their turn in between."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from rwkv_daemon.api.request_state import RequestState
from rwkv_daemon.changes import caller
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.job_view import as_data
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs import pause_resume, stop_intents
from rwkv_daemon.jobs.stop_intents import still_running
from rwkv_daemon.node import Node
from rwkv_daemon.recipes import recipe_pause
from rwkv_daemon.rules.lifecycle import allows
from rwkv_daemon.scheduling.pauses import Scope
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import (
    ACTIVE,
    MovedMeanwhileError,
    get_job,
    jobs_in,
    remember_reply,
    remembered_reply,
    update_job,
)
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.labels import LabellingReply
from rwkvctl.protocol.operation import (
    DrainRequest,
    HoldRequest,
    PauseRequest,
    PausesReply,
    PriorityRequest,
    ReleaseRequest,
)
from rwkvctl.protocol.recipes import RecipeReply, RewriteReply
from rwkvctl.protocol.replies import ChangedReply, DispatchReply
from rwkvctl.protocol.states import TERMINAL
from rwkvctl.protocol.training.baselines import BaselineReply, BaselinesReply
from rwkvctl.protocol.training.watches import WatchReply
from rwkvctl.protocol.views import ChangedJob, PauseView

ANSWER_S: Final = 10.0
"""How long a stop or pause waits for runners to end before the reply names those that still run."""
AT_ONCE: Final = 200
MOST_NAMED: Final = 1000
HIGHEST: Final = 1_000_000

R = TypeVar(
    "R", ChangedReply, DispatchReply, LabellingReply, PausesReply, RecipeReply, RewriteReply, WatchReply,
    BaselineReply, BaselinesReply,
)  # fmt: skip
Few = Callable[[Node, Sequence[str]], Awaitable[ChangedReply]]
JobAction = Callable[[Node, Change, JobRow], Awaitable[ChangedJob]]
"""Changes one job that has no runner, in the caller's transaction."""


async def find_job(records: Records, name: str) -> JobRow:
    """Return a job by its name (`j12`, or 12). Raises RefusedError if there is none."""
    number = name.removeprefix("j")
    job = await get_job(records.store, int(number)) if number.isdecimal() and len(number) < 18 else None
    if job is None:
        raise RefusedError("no-such-job", f"There is no job {name}.", "`rwkvctl jobs` lists them.", Exit.NOT_FOUND)
    return job


async def answered(records: Records, request_id: str, kind: type[R]) -> R | None:
    """Return the stored reply to this request id, None if there is none. Raises RefusedError if it was another kind of
    request."""
    if (earlier := await remembered_reply(records.store, request_id)) is None:
        return None
    try:
        return msgspec.json.decode(earlier, type=kind)
    except msgspec.ValidationError as error:
        text = f"The request id {request_id} was used for another kind of request; nothing was done."
        raise RefusedError("request-id-used", text, "Use a new one for each change.", Exit.USAGE) from error


async def once(
    records: Records, request_state: RequestState, request_id: str, change: Coroutine[None, None, R], kind: type[R]
) -> R:
    """Carry out a change unless this request id was answered before, and return its reply; else return the earlier
    reply. A repetition that comes while the change is being made waits for that reply."""
    try:
        earlier = await answered(records, request_id, kind)
        while earlier is None and (going := request_state.underway.get(request_id)) is not None:
            await asyncio.wait({going})
            earlier = await answered(records, request_id, kind)
    except BaseException:
        change.close()
        raise
    if earlier is not None:
        change.close()
        return earlier
    with under_way(request_state, request_id):
        reply = await change
        if not getattr(reply, "left", 0):  # else the client asks again for the progress
            async with records.store.write() as db:
                await remember_reply(db, request_id, msgspec.json.encode(reply))
    return reply


@contextlib.contextmanager
def under_way(request_state: RequestState, request_id: str) -> Iterator[None]:
    """Mark the request id as being carried out within the block, so that a repetition can wait for its end."""
    if not request_id:
        yield
        return
    going = request_state.underway[request_id] = asyncio.get_running_loop().create_future()
    try:
        yield
    finally:
        del request_state.underway[request_id]
        going.set_result(None)


def unchanged(job: JobRow, error: str = "") -> ChangedJob:
    """Return the reply for a job that was not changed: it already was as wanted, or `error` says why it cannot be."""
    return ChangedJob(job=job.name, state=job.state, changed=False, error=error)


def changed(job: JobRow) -> ChangedJob:
    return ChangedJob(job=job.name, state=job.state, changed=True)


async def each(node: Node, names: Sequence[str], act: JobAction) -> list[ChangedJob]:
    """Apply a change to every job, some hundreds in a transaction; other requests get their turn in between."""
    done: list[ChangedJob] = []
    for some in pieces(names):
        async with node.records.owner:
            done += await all_of(node, some, act)
            crash_point("stop-after-intent")
            await stop_intents.apply(node.records, node.waiting.pauses, node.running)
    return done


async def all_of(node: Node, names: Sequence[str], act: JobAction) -> list[ChangedJob]:
    """Apply a change to some jobs in one transaction; if the judge has finished one of them meanwhile, repeat it with
    the jobs as they are now."""
    while True:
        found = [await found_or_error(node.records, name) for name in names]
        with contextlib.suppress(MovedMeanwhileError):
            async with node.records.change() as change:
                return [await act(node, change, job) if isinstance(job, JobRow) else job for job in found]


def pieces(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names, each job once however it is spelled, some hundreds at a time."""
    distinct = list(dict.fromkeys(map(spelled, names)))
    return (distinct[start : start + AT_ONCE] for start in range(0, len(distinct), AT_ONCE))


def spelled(name: str) -> str:
    """Return `j12` for 12 and j012; a text that is no job's name unchanged."""
    number = name.removeprefix("j")
    return f"j{int(number)}" if number.isdecimal() and len(number) < 18 else name


async def found_or_error(records: Records, name: str) -> JobRow | ChangedJob:
    """Return a job, or the reply's item for a name without a job."""
    try:
        return await find_job(records, name)
    except RefusedError as error:
        return ChangedJob(job=name, state="", changed=False, error=str(error))


async def ended(running: RunningJobs, jobs: Iterable[int]) -> None:
    """Return when no runner works on these jobs any more, or after `ANSWER_S` seconds."""
    deadline, numbers = time.monotonic() + ANSWER_S, set(jobs)
    while numbers & running.runners.keys() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)


async def settled(records: Records, running: RunningJobs, items: Sequence[ChangedJob]) -> tuple[ChangedJob, ...]:
    """Return the changed jobs once their runners are gone, or, at the deadline, with those that still run."""
    numbers = {item.job: int(item.job[1:]) for item in items if item.changed}
    await ended(running, numbers.values())
    settled = []
    for item in items:
        job = await get_job(records.store, numbers[item.job]) if item.changed else None
        still = still_running(records, running, job) if job else ""
        state = job.state if job else item.state
        settled.append(msgspec.structs.replace(item, state=state, still=still))
    return tuple(settled)


async def stop(node: Node, names: Sequence[str]) -> ChangedReply:
    """Stop jobs. The reply comes when they have stopped, or after `ANSWER_S` seconds with those that still run."""
    return ChangedReply(items=await settled(node.records, node.running, await each(node, names, stop_one)))


async def stop_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
    """Begin to stop one job; a finished one is left unchanged."""
    if not allows(job.state, "stop"):
        return unchanged(job)
    return changed(await pause_resume.stop_in(node.running, node.judges, change, job))


async def resume_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
    if job.state == "held" and job.reason == "held":
        return unchanged(job, f"{job.name} is held by an operator; `rwkvctl release {job.name}` releases it")
    if job.state == "held" and (not job.generation_key or job.reason == "data-missing"):
        return unchanged(job, f"{job.name} is held: {job.detail}")
    if not allows(job.state, "resume") and job.wanted != "pause":
        return unchanged(job)
    return changed(await pause_resume.resume_in(node.waiting, node.running, node.engines, change, job))


async def retry_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
    """Retry a failed job; a job in any other state is left unchanged."""
    if job.state == "failed":
        return await resume_one(node, change, job)
    aside = job.state in {"stopped", "paused", "held"}
    return unchanged(job, f"{job.name} is {job.state}, not failed" if aside else "")


async def pause(node: Node, request: PauseRequest) -> PausesReply:
    """Pause jobs, or begin or lift a wider pause. The reply comes when the runners have ended, or at the deadline with
    those that still run."""
    items: Sequence[ChangedJob] = ()
    if request.jobs:
        why = recipe_pause.as_operators(request.why)

        async def pause_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
            if job.state == "held":
                return unchanged(job, f"{job.name} is held and does not run: {job.detail or job.reason}")
            if recipe_pause.paused_with(job):  # from now on it stays so when the recipe is resumed
                await recipe_pause.say_why(change, job, why)
                return changed(job)
            if job.wanted == "pause" or not allows(job.state, "pause"):
                return unchanged(job)
            return changed(await pause_resume.put_aside_in(node.judges, change, job, "pause", "", why))

        items = await each(node, request.jobs, pause_one)
    else:
        scope: Scope = "judge" if request.judge else "queue" if request.queue else "model" if request.model else "group"
        await turn(node, scope, request.model or request.group, why=request.why, off=request.off)
        items = [changed(job) for job in await leaving(node.records, node.running)]
    return await pauses_reply(node.records, node.waiting, await settled(node.records, node.running, items))


async def turn(node: Node, scope: Scope, name: str, *, why: str, off: bool) -> None:
    """Begin or lift a pause that is wider than a job. Raises RefusedError if nothing is named."""
    if scope in {"model", "group"} and not name:
        raise RefusedError("bad-request", "Name jobs, a model, a group, the queue or the judge.", "", Exit.USAGE)
    who = caller.caller().name
    async with node.records.owner:
        if off:
            await pause_resume.lift(node.work, node.judges, scope, name, who)
        else:
            await pause_resume.pause_all(node.work, node.judges, scope, name, who, why)


async def leaving(records: Records, running: RunningJobs) -> list[JobRow]:
    """Return the running jobs that a pause makes leave their engines now."""
    leaving = [number for number, handle in running.runners.items() if handle.intent == "yield"]
    return [job for number in leaving if (job := await get_job(records.store, number)) is not None]


async def drain(node: Node, request: DrainRequest) -> PausesReply:
    """Answer `POST /v1/drain`: begin or end draining the node, which starts no new work meanwhile. The reply comes at
    once; `running` says what is still to end."""
    await turn(node, "node", "", why=request.why, off=request.off)
    return await pauses_reply(node.records, node.waiting, ())


async def pauses_reply(records: Records, waiting: WaitingJobs, items: tuple[ChangedJob, ...]) -> PausesReply:
    """Return what was changed, and everything that is paused now."""
    at_work = [
        state for state in ACTIVE if state != "judging"
    ]  # jobs in `judging` have no runner, and there may be thousands
    running = tuple(job.name for job in await jobs_in(records.store, at_work, limit=MOST_NAMED))
    return PausesReply(items=items, pauses=pause_views(waiting), running=running)


def pause_views(waiting: WaitingJobs) -> tuple[PauseView, ...]:
    """Return the pauses that are wider than single jobs."""
    return tuple(
        PauseView(scope=p.scope, name=p.name, at=p.at, who=p.who, why=p.why) for p in waiting.pauses.standing.values()
    )


async def hold(node: Node, request: HoldRequest) -> ChangedReply:
    """Answer `POST /v1/hold`: keep jobs from starting until they are released."""

    async def hold_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
        if job.state in TERMINAL or job.state == "stopping":
            return unchanged(job, f"{job.name} is {job.state}: there is nothing to hold")
        return changed(await pause_resume.put_aside_in(node.judges, change, job, "hold", "held", request.why))

    return ChangedReply(items=await settled(node.records, node.running, await each(node, request.jobs, hold_one)))


async def release(node: Node, request: ReleaseRequest) -> ChangedReply:
    """Answer `POST /v1/release`: let held jobs start again; a job held for another reason is left as it is."""

    async def release_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
        if (job.state, job.reason) == ("stopped", "held"):
            await update_job(change.db, job.id, reason="", detail="")
            await change.note("job.wanted", job=job.name, session=job.session, text=f"{job.name} is released")
            return changed(job)
        if "held" in {job.wanted_reason, job.reason}:
            return changed(await pause_resume.resume_in(node.waiting, node.running, node.engines, change, job))
        why = f"{job.name} is held for another reason: {job.detail or job.reason}" if job.state == "held" else ""
        return unchanged(job, why)

    return ChangedReply(items=tuple(await each(node, request.jobs, release_one)))


async def priority(node: Node, request: PriorityRequest) -> ChangedReply:
    """Set the priority of jobs. It counts when they are placed next; running jobs go on."""
    if abs(request.priority) > HIGHEST:
        raise RefusedError("bad-request", f"A priority lies between -{HIGHEST} and {HIGHEST}.", "", Exit.USAGE)

    async def set_one(_node: Node, change: Change, job: JobRow) -> ChangedJob:
        if job.state in TERMINAL:
            return unchanged(job, f"{job.name} is {job.state}: its priority has no effect any more")
        if job.priority == request.priority:
            return unchanged(job)
        await update_job(change.db, job.id, priority=request.priority)
        text = f"{job.name} has priority {request.priority} (was {job.priority})"
        data = as_data(replace(job, priority=request.priority))
        await change.note("job.priority", job=job.name, session=job.session, text=text, data=data)
        return changed(job)

    return ChangedReply(items=tuple(await each(node, request.jobs, set_one)))
