"""The loop that makes the node do what the store says: look, ingest, place, act; several times a second, or when woken.

One task runs it, so no two decisions are ever made side by side. It acts under `node.owner`, which request handlers
take too when they change what the loop works on.
"""

import asyncio
import time

from rwkv_daemon import endings, engines, planning, runners
from rwkv_daemon.engines import start_engine, unload
from rwkv_daemon.gpus import takes_engines
from rwkv_daemon.node import BackOff, Node, log
from rwkv_daemon.placement import (
    Command,
    EngineFact,
    EngineKind,
    StartEngine,
    StartJob,
    UnloadEngine,
    Wait,
    WaitingJob,
    place,
)
from rwkv_daemon.placement import Node as Situation
from rwkv_daemon.runners import set_engine, start_runner
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.engines import live_engines
from rwkv_daemon.store.jobs import ACTIVE, get_job, jobs_in, update_job

BUSY_S, IDLE_S = 0.1, 1.0
SLOW_EVERY_S = 2.0
HEAD = 200
"""How many waiting jobs one round looks at. Queue order holds, so later ones could not start anyway."""


async def adopt(node: Node) -> None:
    """Find what an earlier daemon left running."""
    await engines.adopt_engines(node)
    await runners.adopt_runners(node)
    await settle_strays(node)


async def settle_strays(node: Node) -> None:
    """Jobs and engines that the store says run, and that have no process here: take the step that was missed."""
    for job in await jobs_in(node.store, ACTIVE):
        if job.id in node.runners or job.state == "judging":
            continue
        if job.state == "grading" and job.engine is None:
            await start_runner(node, job, None)
        else:
            await endings.settle(node, job)
    for row in await live_engines(node.store):
        if row.id not in node.engines:
            await engines.engine_gone(node, row, "it had no process", failed=True)


async def supervise(node: Node) -> None:
    """Run until cancelled. A store that cannot be written (disk full) stops new work, never what runs."""
    slow = 0.0
    while True:
        node.wake.clear()
        try:
            async with node.owner:
                await round_of(node)
                if node.look_at_held or time.monotonic() - slow > SLOW_EVERY_S:
                    slow, node.look_at_held = time.monotonic(), False
                    await settle_strays(node)
                    await planning.release_held(node)
            node.trouble = ""
        except StoreError as error:
            if node.trouble != str(error):
                log.error("the store cannot be written: %s; nothing new is started, what runs goes on", error)
            node.trouble = str(error)
            await asyncio.sleep(IDLE_S)
        except Exception:  # noqa: BLE001 - logged; a daemon that ends here would recur at every start
            log.exception("a round of the supervisor failed; it goes on with the next")
            await asyncio.sleep(IDLE_S)
        busy = node.runners or any(handle.row.state != "ready" for handle in node.engines.values())
        try:
            async with asyncio.timeout(BUSY_S if busy else IDLE_S):
                await node.wake.wait()
        except TimeoutError:
            continue
        await asyncio.sleep(0.01)  # let a burst of wake-ups become one round


async def round_of(node: Node) -> None:
    """One look at everything, then the placement's commands."""
    await engines.watch_engines(node)
    await runners.watch_runners(node)
    if node.leases is None or node.stopping:
        return
    waiting = await waiting_jobs(node)
    for command in place([w for w, _ in waiting], await situation(node)):
        await perform(node, command, {job.id: job for _, job in waiting})


async def waiting_jobs(node: Node) -> list[tuple[WaitingJob, JobRow]]:
    """Running jobs whose engine is gone come first, then the queue, without those that wait for a retry."""
    live = {number for number, handle in node.engines.items() if handle.row.state != "unloading"}
    stranded = [
        job
        for number, handle in node.runners.items()
        if not handle.regrades and handle.engine not in live and (job := await get_job(node.store, number)) is not None
        and job.state != "stopping"
    ]  # fmt: skip
    queued = [] if node.disk_low else await jobs_in(node.store, ("queued",), limit=HEAD)
    clock = time.monotonic()
    ready = [job for job in queued if node.retry_at.get(job.id, 0) <= clock]
    node.waiting_since = {job.id: node.waiting_since.get(job.id, clock) for job in ready}
    return [
        (
            WaitingJob(
                job.id, EngineKind(job.weights_sha256, job.numerics), clock - node.waiting_since.get(job.id, clock)
            ),
            job,
        )
        for job in stranded + ready
    ]


async def situation(node: Node) -> Situation:
    """Engines, free leases and limits as the placement sees them."""
    clock = time.monotonic()
    load = [handle.engine for handle in node.runners.values()]
    facts = []
    for number, handle in node.engines.items():
        jobs = load.count(number)
        if jobs:
            handle.idle_since = clock
        room = handle.stats is None or handle.stats.room > 0
        facts.append(
            EngineFact(number, handle.serves, handle.row.lease, handle.row.state, jobs, clock - handle.idle_since, room)
        )
    taken = {row.lease for row in await live_engines(node.store)}
    free = [lease.id for lease in node.leases or [] if lease.id not in taken and takes_engines(lease)]
    settings = node.config.settings
    return Situation(
        engines=tuple(facts),
        free_leases=tuple(free),
        runners_per_engine=settings.runners_per_engine,
        idle_unload_s=settings.idle_unload_s,
    )


async def perform(node: Node, command: Command, jobs: dict[int, JobRow]) -> None:
    """Carry out one command."""
    match command:
        case StartJob(job, engine):
            row = node.engines[engine].row
            await (set_engine if job in node.runners else start_runner)(node, jobs[job], row)
        case StartEngine(serves, lease, job):
            if not await weights_are_the_same(node, jobs[job]):
                return
            back_off = node.back_off.get(serves, BackOff())
            if back_off.failures > node.config.settings.max_restarts:
                await engine_keeps_failing(node, serves, jobs[job])
            elif time.monotonic() >= back_off.not_before:
                await start_engine(node, jobs[job], lease)
        case UnloadEngine(engine, why):
            await unload(node, node.engines[engine], why)
        case Wait(job, reason, detail):
            row_now = jobs[job]
            if row_now.state == "queued" and (row_now.reason, row_now.detail) != (reason, detail):
                async with node.store.write() as db:
                    await update_job(db, job, reason=reason, detail=detail)


async def weights_are_the_same(node: Node, job: JobRow) -> bool:
    """Whether the file at the job's path is still the one that was hashed; a queued job is held if it is not."""
    if await engines.still_those_weights(node, job.weights_path, job.weights_sha256):
        return True
    detail = f"{job.weights_path} is not the file the job was dispatched with; dispatch again"
    if job.state == "queued":
        async with node.change() as change:
            await change.move(job, "hold", reason="weights-missing", detail=detail)
    elif job.id in node.runners:
        node.hold_when_ended[job.id] = ("weights-missing", detail)
        node.folder(job.id).write_desired("stop")
    return False


async def engine_keeps_failing(node: Node, serves: EngineKind, job: JobRow) -> None:
    """Give up on a job whose engine does not stay up; other jobs go on."""
    detail = f"its engine ended {node.back_off[serves].failures} times in a row; see `rwkvctl logs` of the engine"
    if job.id in node.runners:
        node.hold_when_ended[job.id] = ("does-not-load", detail)
        node.folder(job.id).write_desired("stop")
    elif job.state == "queued":
        async with node.change() as change:
            await change.move(job, "fail", detail=detail)
