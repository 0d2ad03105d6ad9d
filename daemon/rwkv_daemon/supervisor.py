"""The supervisor loop, which makes the node do what the store says: check, ingest, place, act; several times a second,
or when woken.

One task runs it, so no two decisions are ever made side by side. It acts under `records.owner`, which request handlers
take too when they change what the loop works on.
"""

import asyncio
import os
import time
from itertools import islice

from rwkv_daemon.engines import engine_processes
from rwkv_daemon.engines.engine_launch import launch_reserved, reserve
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import attempt_ends, runner_processes, shared_generation, stop_intents
from rwkv_daemon.jobs.pause_resume import put_aside
from rwkv_daemon.jobs.runner_processes import start_runner
from rwkv_daemon.node import Node
from rwkv_daemon.planning import held_jobs
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules import endpoint_places, outside_kills
from rwkv_daemon.rules.endpoint_places import AskEndpoint, HoldJob
from rwkv_daemon.rules.placement import (
    CloseEngine,
    Command,
    EngineKind,
    StartEngine,
    StartJob,
    UnloadEngine,
    Wait,
    place,
)
from rwkv_daemon.rules.queued_job import QueuedJob
from rwkv_daemon.scheduling import engine_assignment, measured_rates, placement_facts
from rwkv_daemon.scheduling.engine_assignment import set_engine
from rwkv_daemon.scheduling.live_engines import EngineBackOff
from rwkv_daemon.store import ConflictError, EngineRow, JobRow, StoreError
from rwkv_daemon.store.queries.engines import live_engines
from rwkv_daemon.store.queries.jobs import get_job, to_grade_again, worked_on
from rwkv_daemon.store.queries.rates import explain_jobs, file_sizes, queued_among, queued_page, queued_sum
from rwkvctl.protocol.endpoints import name_of, table_of
from rwkvctl.protocol.states import Reason

BUSY_S, IDLE_S = 0.1, 1.0
SLOW_EVERY_S = 5.0
MOST_LOOKED_AT = 1000
PAGE = 500
"""Jobs that are read at once."""
PLACE_EVERY_S = 0.5
"""Placement runs when something has happened, and at this interval: engines fill up and become idle by themselves."""


async def adopt(node: Node) -> None:
    """Adopt what an earlier daemon left running."""
    await engine_processes.adopt_engines(node.records, node.engines, node.gpus)
    await runner_processes.adopt_runners(node.work, node.judges, node.catalogue)
    await settle_without_process(node)
    await measured_rates.recall(node.records, node.waiting, node.engines)


async def settle_without_process(node: Node) -> None:
    """Handle jobs and engines that the store says run, and that have no process: take the step that was missed."""
    for job in await worked_on(node.records.store):
        if job.id not in node.running.runners:
            await attempt_ends.settle(node.work, node.judges, node.catalogue, job)
    for row in await live_engines(node.records.store):
        if row.id not in node.engines.live and row.id not in node.engines.leasing.launching:
            await engine_processes.engine_gone(
                node.records, node.engines, node.gpus, row, "it had no process", failed=True
            )


async def supervise(node: Node) -> None:
    """Run until cancelled. A store that cannot be written (disk full) stops new work, never what runs."""
    slow = 0.0
    while True:
        node.records.wake.clear()
        try:
            async with node.records.owner:
                await round_of(node)
                if node.waiting.look_at_held or time.monotonic() - slow > SLOW_EVERY_S:
                    slow, node.waiting.look_at_held = time.monotonic(), False
                    await settle_without_process(node)
                    # a request may have been interrupted after it stored an intent
                    await stop_intents.apply(node.records, node.waiting.pauses, node.running)
                    await held_jobs.release_held(node.work, node.catalogue)
        except StoreError as error:
            log.debug("a round of the supervisor has to wait: %s", error)  # the watch of the store reports the reason
            node.waiting.queue.stale = True  # jobs that were to be read again may be lost with the error
            await asyncio.sleep(IDLE_S)
        except Exception:  # noqa: BLE001 - logged; a daemon that ends here would recur at every start
            log.exception("a round of the supervisor failed; it goes on with the next")
            await asyncio.sleep(IDLE_S)
        busy = (
            node.running.runners
            or node.engines.leasing.launching
            or any(handle.row.state != "ready" for handle in node.engines.live.values())
        )
        try:
            async with asyncio.timeout(BUSY_S if busy else IDLE_S):
                await node.records.wake.wait()
        except TimeoutError:
            continue
        await asyncio.sleep(0.01)  # several wake-ups become one round


async def round_of(node: Node) -> None:
    """Run one round: check everything, then placement if it is due."""
    await engine_processes.watch_engines(node.work, node.gpus, node.judges)
    await launch_reserved(node.records, node.engines, node.gpus)
    await look_at_runners(node)
    if node.engines.leases is None or node.service.stopping or not node.waiting.queue.is_due(PLACE_EVERY_S):
        engine_assignment.refresh(node.records, node.running, node.engines)
        return
    await read_queue(node)
    await shared_generation.take_over(node.records, node.waiting, node.running)
    await decide(node)
    await grade_again(node)
    await engine_assignment.leave_closed(node.records, node.running, node.engines)
    engine_assignment.refresh(node.records, node.running, node.engines)
    await launch_reserved(node.records, node.engines, node.gpus)


async def look_at_runners(node: Node) -> None:
    """Ingest what runners wrote and handle their ends; the rates of those that ended are stored."""
    before = dict(node.running.runners)
    measured_rates.note(node.waiting, node.running)
    await runner_processes.watch_runners(node.work, node.judges, node.catalogue)
    for number in before.keys() - node.running.runners.keys():
        if (job := await get_job(node.records.store, number)) is not None:
            await measured_rates.remember(node.records, node.waiting, node.engines, job, before[number])


async def read_queue(node: Node) -> None:
    """Read the waiting jobs that are not known: all at the start, then those that have come or changed."""
    queue, store = node.waiting.queue, node.records.store
    queue.meanwhile.clear()
    if queue.is_to_be_checked() and not queue.stale:
        queue.stale = not queue.is_as(*await queued_sum(store))
    if queue.unsized:
        queue.unsized, queue.sizes = False, await file_sizes(store)
    if queue.stale:
        queue.unread.clear()
        found: list[QueuedJob] = []
        while page := await queued_page(store, found[-1].id if found else 0, PAGE):
            found += page
        queue.read_anew(found)
    while queue.grown:
        page = await queued_page(store, queue.newest, PAGE)
        queue.grown = len(page) == PAGE
        queue.grown_by(page)
    while some := list(islice(queue.unread, PAGE)):
        queue.unread.difference_update(some)
        queue.read_again(set(some), await queued_among(store, some))


async def decide(node: Node) -> None:
    """Run placement, and carry out its commands."""
    began = time.thread_time()
    scene = await placement_facts.look(node.work, node.catalogue.endpoints)
    placed = place(scene.waiting, scene.node)
    started = {command.job for command in placed if isinstance(command, StartJob)}
    commands: list[Command | AskEndpoint | HoldJob] = [
        *placed,
        *endpoint_places.place(
            scene.to_ask,
            scene.asking,
            scene.endpoints,
            endpoint_places.left_in_groups(scene.node.groups, scene.waiting, started),
            node.records.config.settings.runners_per_engine,
        ),
    ]
    node.waiting.queue.cost_s = time.thread_time() - began
    for command in commands:
        try:
            await perform(node, command)
        except Exception as error:  # an error with one job does not affect the others
            if isinstance(error, StoreError) and not isinstance(error, ConflictError):
                raise
            log.exception("%s cannot be done now", command)
    await explain(node, [*(command for command in commands if isinstance(command, Wait)), *scene.aside])


async def perform(node: Node, command: Command | AskEndpoint | HoldJob) -> None:
    """Carry out a command: start, move or hold a job, or start, close or unload an engine. A Wait needs nothing
    done."""
    match command:
        case StartJob(number, engine):
            await start_on_engine(node, number, node.engines.live[engine].row)
        case AskEndpoint(number, name):
            await start_at_endpoint(node, number, node.catalogue.endpoints.by_name[name])
        case HoldJob(number):
            await hold_without_endpoint(node, number)
        case StartEngine():
            await start_engine(node, command)
        case CloseEngine(engine, why):
            node.engines.live[engine].closed = why
        case UnloadEngine(engine, why):
            await engine_processes.unload(node.records, node.engines, node.gpus, node.engines.live[engine], why)
        case Wait():
            return


async def start_on_engine(node: Node, number: int, engine: EngineRow) -> None:
    """Start the runner of a queued job on an engine, or move a running one there."""
    job = await get_job(node.records.store, number)
    if job is not None and number in node.running.runners:
        await set_engine(node.records, node.running, node.engines, job, engine)
    elif job is not None and job.state == "queued":
        await start_runner(node.work, node.judges, node.catalogue, job, engine)


async def start_at_endpoint(node: Node, number: int, remote: RemoteModel) -> None:
    """Start the runner of a queued job that asks a model behind an endpoint."""
    job = await get_job(node.records.store, number)
    if job is not None and job.state == "queued":
        await start_runner(node.work, node.judges, node.catalogue, job, remote)


async def hold_without_endpoint(node: Node, number: int) -> None:
    """Hold a job whose model the configuration does not have any more: under its name there is none, or another
    one."""
    job = await get_job(node.records.store, number)
    if job is None or (job.state != "queued" and number not in node.running.runners):
        return
    table = table_of(job.weights_path)
    another, again = name_of(job.weights_path) in node.catalogue.endpoints.by_name, "dispatch"
    reason: Reason = "endpoint-not-configured"
    if not job.measures:
        again, reason = "label" if job.labels_rows else "rewrite", "writer-not-configured"
    detail = f"{table} is another model now; {again} again for that" if another else f"there is no {table} any more"
    await put_aside(node.work, node.judges, job, "hold", reason, detail)


async def grade_again(node: Node) -> None:
    """Start runners for jobs that are to be graded again, which needs no engine: as many side by side as the node has
    grading slots."""
    grading = sum(handle.regrades for handle in node.running.runners.values())
    room = (node.records.config.settings.grading_slots or os.cpu_count() or 1) - grading
    for job in await to_grade_again(node.records.store, MOST_LOOKED_AT) if room > 0 else ():
        soon = node.running.retry_at.get(job.id, 0.0) > time.monotonic()
        if room > 0 and job.id not in node.running.runners and not soon and not node.waiting.pauses.covers(job):
            await start_runner(node.work, node.judges, node.catalogue, job, None)
            room -= 1


async def start_engine(node: Node, command: StartEngine) -> None:
    """Reserve a lease for an engine, if its kind may start one. An engine that helps others loads their file."""
    job = await get_job(node.records.store, command.job) if command.job else None
    twin = next((handle.row for handle in node.engines.live.values() if handle.serves == command.serves), None)
    if job is not None:
        back_off = node.engines.back_off.get(command.serves, EngineBackOff())
        if back_off.kills >= outside_kills.MOST:
            detail = f"its engine was ended from outside {back_off.kills} times in a row; find out by whom"
            detail += f", then `rwkvctl resume {job.name}`"
            await put_aside(node.work, node.judges, job, "hold", "killed", detail)
        elif back_off.failures > node.records.config.settings.max_restarts:
            await engine_keeps_failing(node, command.serves, job)
        elif await weights_are_the_same(node, job):
            await reserve(node.records, node.engines, command, job.model, job.weights_path)
    elif twin is not None:
        path, sha256 = twin.weights_path, twin.weights_sha256
        if await engine_processes.still_those_weights(node.records, path, sha256):
            await reserve(node.records, node.engines, command, twin.model, twin.weights_path)


async def explain(node: Node, waits: list[Wait]) -> None:
    """Store why jobs wait, in one transaction, if the reason has changed."""
    told = node.waiting.queue.told
    new = [w for w in waits if w.job in node.waiting.queue.jobs and told.get(w.job) != (w.reason, w.detail)]
    if new:
        async with node.records.store.write() as db:
            await explain_jobs(db, [(w.reason, w.detail, w.job) for w in new])
        told.update({w.job: (w.reason, w.detail) for w in new})


async def weights_are_the_same(node: Node, job: JobRow) -> bool:
    """Whether the file at the job's path is still the one that was hashed; a queued job is held if it is not. A file
    that was changed (moved, linked, its rights) is hashed again; if its user has to show it, that takes a dispatch."""
    sha256 = await engine_processes.sha256_at(node.records, job.weights_path)
    if sha256 == job.weights_sha256:
        return True
    reason: Reason = "weights-missing"
    detail = f"{job.weights_path} is not the file the job was dispatched with; dispatch again"
    if sha256 == "" and not job.weights_inodes:
        reason, detail = "weights-hashing", f"{job.weights_path} has changed, and is hashed again"
    elif sha256 == "":
        detail = f"{job.weights_path} has changed since you showed it; dispatch it once more, and this job goes on"
    if job.id in node.running.runners or job.state == "queued":
        await put_aside(node.work, node.judges, job, "hold", reason, detail)
    return False


async def engine_keeps_failing(node: Node, serves: EngineKind, job: JobRow) -> None:
    """Fail a job whose engine ends again and again; other jobs go on."""
    failures = node.engines.back_off[serves].failures
    detail = f"its engine ended {failures} times in a row; see `rwkvctl logs` of the engine"
    if job.id in node.running.runners:
        await put_aside(node.work, node.judges, job, "hold", "does-not-load", detail)
    elif job.state == "queued":
        async with node.records.change() as change:
            await change.move(job, "fail", detail=detail, failure="infrastructure")
