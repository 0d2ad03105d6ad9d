"""Engine processes: start, notice that they are ready, watch, unload, adopt."""

import asyncio
import os
import sys
import time
import uuid as uuids
from pathlib import Path

import msgspec

from rwkv_daemon import engine_client, events, processes, views
from rwkv_daemon.catalogue import identity_of
from rwkv_daemon.clock import now
from rwkv_daemon.endings import how, last_line
from rwkv_daemon.engine_client import NoAnswerError
from rwkv_daemon.node import BackOff, Change, EngineHandle, Node, log
from rwkv_daemon.placement import EngineKind
from rwkv_daemon.processes import NotStartedError
from rwkv_daemon.store import EngineRow, JobRow
from rwkv_daemon.store.engines import add_engine, get_engine, live_engines, update_engine
from rwkv_daemon.store.jobs import ACTIVE, count_load_failure, forget_load_failures, jobs_in, sha256_of
from rwkvctl import config
from rwkvctl.protocol.messages import EngineView
from rwkvctl.protocol.states import EngineState

DOES_NOT_LOAD = 3
"""Exit code of an engine that refuses its checkpoint (rwkv_engine documents it)."""
MAX_LOAD_FAILURES = 2
STATS_EVERY_S = 1.0
QUIET_S = 5.0
STABLE_S = 60.0


async def start_engine(node: Node, job: JobRow, lease: str) -> None:
    """Start an engine for what `job` needs. The lease counts as taken before the process exists."""
    uuid = str(uuids.uuid4())
    async with node.change() as change:
        number = await add_engine(
            change.db,
            {
                "uuid": uuid,
                "model": job.model,
                "weights_path": job.weights_path,
                "weights_sha256": job.weights_sha256,
                "numerics": job.numerics,
                "lease": lease,
                "socket": "",
            },
        )
        socket = node.config.socket.parent / f"e{number}.sock"
        await update_engine(change.db, number, socket=str(socket))
    row = await get_engine(node.store, number)
    assert row is not None
    async with node.change() as change:
        await tell(node, change, row, "starting", f"starts on {lease}")
    try:
        worker = await asyncio.to_thread(processes.start, launch_of(node, row))
    except (NotStartedError, OSError) as error:
        push_back(node, EngineKind(row.weights_sha256, row.numerics))
        await engine_gone(node, row, f"it could not be started: {error}", failed=True)
        return
    node.engines[number] = EngineHandle(row, worker)
    node.wake.set()


def launch_of(node: Node, row: EngineRow) -> processes.Launch:
    """The engine's command line. Everything it needs is in it; settings of ours do not reach it otherwise."""
    folder = node.engine_folder(row.id)
    folder.mkdir(parents=True, exist_ok=True)
    settings = node.config.settings
    argv = [
        sys.executable, "-m", "rwkv_engine", "serve", row.weights_path, "--socket", row.socket,
        "--numerics", row.numerics, "--device", "cpu" if row.lease.startswith("cpu") else "cuda",
        "--attempt", row.uuid, "--weights-sha256", row.weights_sha256, "--liveness", str(folder / "live"),
    ]  # fmt: skip
    if settings.engine_slots:
        argv += ["--slots", str(settings.engine_slots)]
    environment = config.base_environment() | {"PYTHONUNBUFFERED": "1"}
    if row.lease.startswith("cpu"):
        threads = settings.engine_threads or max(1, (os.cpu_count() or 1) - 1)
        argv += ["--threads", str(threads)]
        environment |= {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    else:
        environment |= {"CUDA_VISIBLE_DEVICES": row.lease, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    lock = node.config.socket.parent / f"lease-{row.lease.replace(':', '-')}.lock"
    return processes.Launch(
        uuid=row.uuid, argv=tuple(argv), record=folder / "record.json", log=folder / "log.txt",
        environment=environment, lock=lock,
    )  # fmt: skip


async def adopt_engines(node: Node) -> None:
    """After a restart of the daemon: find the engines that still run; the others' leases are free again."""
    for row in await live_engines(node.store):
        worker = processes.adopt(row.uuid, node.engine_folder(row.id) / "record.json")
        if worker is None:
            await asyncio.to_thread(processes.sweep, row.uuid)
            await engine_gone(node, row, "it was gone when the daemon came back", failed=False)
        else:
            node.engines[row.id] = EngineHandle(row, worker)
            if row.state == "unloading":
                processes.ask_to_stop(worker)
            log.info("adopted engine e%d (pid %d)", row.id, worker.pid)


async def watch_engines(node: Node) -> None:
    """One look at every engine: has it ended, is it ready, what are its rates."""
    for handle in list(node.engines.values()):
        if handle.exit is not None or processes.has_ended(handle.worker):
            await engine_ended(node, handle)
        elif handle.row.state in {"starting", "loading"}:
            await look_for_ready(node, handle)
        elif handle.row.state == "ready":
            await watch_ready(node, handle)
        elif time.monotonic() - handle.last_seen > node.config.settings.stop_term_s:
            processes.kill(handle.worker)


async def look_for_ready(node: Node, handle: EngineHandle) -> None:
    """Ask a loading engine for its health; stop one that takes too long."""
    row = handle.row
    try:
        found = await engine_client.health(Path(row.socket))
    except NoAnswerError:
        found = None
    if found is None or found.attempt not in {"", row.uuid}:
        if time.monotonic() - handle.started > node.config.settings.engine_start_timeout_s:
            push_back(node, handle.serves)
            await unload(node, handle, "it was not ready in time")
        return
    if not await still_those_weights(node, row.weights_path, row.weights_sha256):
        await unload(node, handle, "its file was replaced while it was loading")
        return
    async with node.change() as change:
        await update_engine(change.db, row.id, state="ready", health=msgspec.json.encode(found).decode())
        await forget_load_failures(change.db, row.weights_sha256)
        await tell(node, change, row, "ready", f"is ready on {row.lease}")
    refreshed = await get_engine(node.store, row.id)
    assert refreshed is not None
    handle.row, handle.idle_since, handle.beat_at = refreshed, time.monotonic(), time.monotonic()


async def still_those_weights(node: Node, path: str, sha256: str) -> bool:
    """Whether the file at a path is the one that has this hash. Its identity is asked, not its content."""
    try:
        identity = identity_of(Path(path))
    except OSError:
        return False
    return (await sha256_of(node.store, identity))[0] == sha256


async def watch_ready(node: Node, handle: EngineHandle) -> None:
    """The step counter in the liveness file moves every second while the engine lives; one that stands still is hung,
    and is treated as dead: its jobs go on with another."""
    beat = await asyncio.to_thread(read_beat, node.engine_folder(handle.row.id) / "live")
    clock = time.monotonic()
    if beat != handle.beat:
        handle.beat, handle.beat_at = beat, clock
    if clock - handle.beat_at > node.config.settings.engine_hang_s:
        log.error("%s stands still since %.0f s; it is killed", handle.row.name, clock - handle.beat_at)
        handle.beat_at = clock
        await asyncio.to_thread(processes.kill, handle.worker)
    elif clock - handle.beat_at < QUIET_S:
        await refresh_stats(node, handle)


def read_beat(path: Path) -> int:
    """The step counter; -1 before the engine has made the file."""
    try:
        data = path.read_bytes()[:8]
    except FileNotFoundError:
        return -1
    return int.from_bytes(data, "little") if len(data) == 8 else -1


async def refresh_stats(node: Node, handle: EngineHandle) -> None:
    """Ask for rates, once a second; an engine that is too busy to answer keeps its last ones."""
    if time.monotonic() - handle.asked < STATS_EVERY_S:
        return
    handle.asked = time.monotonic()
    try:
        handle.stats = await engine_client.stats(Path(handle.row.socket))
    except NoAnswerError:
        return
    handle.last_seen = time.monotonic()
    data = msgspec.to_builtins(views.engine_view(node, handle))
    node.bus.publish([events.passing("engine.stats", engine=handle.row.name, data=data)])
    if handle.last_seen - handle.started > STABLE_S:
        node.back_off.pop(handle.serves, None)


async def unload(node: Node, handle: EngineHandle, why: str) -> None:
    """Stop an engine. Its lease is free when its process is gone, not before."""
    async with node.change() as change:
        await update_engine(change.db, handle.row.id, state="unloading", detail=why)
        await tell(node, change, handle.row, "unloading", f"is unloaded: {why}")
    refreshed = await get_engine(node.store, handle.row.id)
    assert refreshed is not None
    handle.row, handle.last_seen = refreshed, time.monotonic()
    processes.ask_to_stop(handle.worker)


async def engine_ended(node: Node, handle: EngineHandle) -> None:
    """An engine's processes are gone: wanted, refused its checkpoint, or crashed. Stored first, then forgotten."""
    if handle.exit is None:
        handle.exit = (await asyncio.to_thread(handle.worker.close),)
        await asyncio.to_thread(processes.sweep, handle.row.uuid)
        Path(handle.row.socket).unlink(missing_ok=True)
    record = handle.exit[0]
    loading = handle.row.state in {"starting", "loading"}
    if handle.row.state == "unloading":
        await engine_gone(node, handle.row, handle.row.detail, failed=False)
    elif loading and record is not None and record.code == DOES_NOT_LOAD:
        push_back(node, handle.serves)
        await refused(node, handle.row)
    else:
        push_back(node, handle.serves)
        await engine_gone(node, handle.row, f"it ended unasked ({how(record)}); see its log", failed=True)
    node.engines.pop(handle.row.id, None)


def push_back(node: Node, serves: EngineKind) -> None:
    """Wait longer before each further start of the same kind of engine."""
    back_off = node.back_off.setdefault(serves, BackOff())
    wait = node.config.settings.restart_backoff_s * 2 ** min(back_off.failures, 8)
    back_off.failures += 1
    back_off.not_before = time.monotonic() + wait


async def refused(node: Node, row: EngineRow) -> None:
    """The engine says that this checkpoint cannot be loaded. Twice, and all its jobs are held."""
    why = last_line(node.engine_folder(row.id) / "log.txt") or "the engine gave no reason"
    async with node.change() as change:
        failures = await count_load_failure(change.db, row.weights_sha256, why)
    await engine_gone(node, row, why, failed=True)
    if failures >= MAX_LOAD_FAILURES:
        await hold_all(node, row.weights_sha256, why)


async def hold_all(node: Node, sha256: str, why: str) -> None:
    """Hold every job of weights that do not load; running ones are stopped first."""
    for job in await jobs_in(node.store, ("queued", *ACTIVE), limit=1_000_000):
        if job.weights_sha256 != sha256:
            continue
        if job.id in node.runners:
            node.hold_when_ended[job.id] = ("does-not-load", why)
            node.folder(job.id).write_desired("stop")
        elif job.state == "queued":
            async with node.change() as change:
                await change.move(job, "hold", reason="does-not-load", detail=why)


async def engine_gone(node: Node, row: EngineRow, why: str, *, failed: bool) -> None:
    """Free the lease."""
    async with node.change() as change:
        state: EngineState = "failed" if failed else "gone"
        await update_engine(change.db, row.id, state=state, detail=why, ended=now())
        await tell(node, change, row, state, f"is {state}: {why}")


async def tell(node: Node, change: Change, row: EngineRow, state: EngineState, what: str) -> None:
    """The event of an engine's new state, with the engine as it is then."""
    view = EngineView(
        id=row.name, model=row.model, numerics=row.numerics, lease=row.lease, state=state, detail=row.detail
    )
    data = msgspec.to_builtins(view)
    await change.note("engine.state", engine=row.name, text=f"{row.name} {row.model} {what}", data=data)
    holds = state not in {"gone", "failed"}
    for lease in node.leases or []:
        if lease.id == row.lease:
            now_held = msgspec.structs.replace(lease, use="leased", engine=row.name) if holds else lease
            change.events.append(events.passing("lease", data=msgspec.to_builtins(now_held)))
