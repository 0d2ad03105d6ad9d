"""Engine processes: wait until they are ready, watch, unload, adopt, and handle their end."""

import asyncio
import contextlib
import random
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from rwkv_daemon.catalogue.contents import identity_of
from rwkv_daemon.changes import event_bus
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.engines import engine_questions, engine_views
from rwkv_daemon.engines.engine_questions import NoAnswerError
from rwkv_daemon.gpus import condition_store, xid_rules
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import kill_counts, poison_jobs, run_archive
from rwkv_daemon.jobs.attempt_ends import last_line
from rwkv_daemon.jobs.pause_resume import put_aside_in
from rwkv_daemon.jobs.stop_intents import apply
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.rules import memory_fit, outside_kills
from rwkv_daemon.rules.exit_rules import engine_cause, how
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkv_daemon.scheduling.lease_memory import FRESH_S
from rwkv_daemon.scheduling.leases import device_name, is_gpu, label
from rwkv_daemon.scheduling.live_engines import EngineBackOff, EngineHandle, Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.store import EngineRow, StoreError
from rwkv_daemon.store.queries.engines import get_engine, live_engines, update_engine
from rwkv_daemon.store.queries.jobs import (
    ACTIVE,
    count_load_failure,
    forget_load_failures,
    jobs_by_id,
    jobs_in,
    sha256_of,
)
from rwkv_daemon.store.queries.leases import FitRow, free_lease, save_fit
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers import cgroups, stall_detection, worker_process
from rwkv_daemon.workers.run_directory import DOOMED
from rwkv_daemon.workers.stop_ladder import Patience, StopStep, climb, remains, told_of
from rwkvctl.protocol.states import EngineState, Reason
from rwkvctl.protocol.views import EngineView
from rwkvctl.settings import config

DOES_NOT_LOAD, OUT_OF_MEMORY, UNLOADED = 3, 4, 5
"""Exit codes of an engine that refuses its checkpoint, has too little memory for it, or has unloaded itself because no
daemon ran and it had no work (rwkv_engine documents them)."""
ALONE = "no daemon ran and it had no work: it unloaded itself"
NOT_IN_TIME = "it was not ready in time"
MAX_LOAD_FAILURES = 2
STATS_EVERY_S = 1.0
QUIET_S = 5.0
NO_LOOK_S = 10.0
XID_S = 120.0
"""For so long, in seconds, an XID error of the hardware explains the end of an engine on that GPU."""
STABLE_S = 60.0


async def adopt_engines(records: Records, engines: Engines, gpus: Gpus) -> None:
    """After a restart of the daemon: adopt the engines that still run, and free the leases of the others."""
    for row in await live_engines(records.store):
        if row.id in engines.live:
            continue  # adopted before the store went away
        worker = worker_process.adopt(row.uuid, records.engine_folder(row.id) / "record.json")
        if worker is None:
            await asyncio.to_thread(worker_process.sweep, row.uuid)
            record = worker_process.read_record(records.engine_folder(row.id) / "record.json")
            by_itself = record is not None and record.code == UNLOADED
            why = ALONE if by_itself else "it was gone when the daemon came back"
            await engine_gone(records, engines, gpus, row, why, failed=False)
        else:
            engines.live[row.id] = EngineHandle(row, worker)
            log.info("adopted engine e%d (pid %d)", row.id, worker.pid)


async def watch_engines(work: NodeWork, gpus: Gpus, judges: Judges) -> None:
    """Check every engine once. An error with one engine does not affect the others."""
    for handle in list(work.engines.live.values()):
        try:
            await watch_engine(work, gpus, judges, handle)
            handle.trouble = ""
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - logged, once
            if handle.trouble != str(error):
                log.exception("%s cannot be checked; its work goes on", handle.row.name)
            handle.trouble = str(error)


async def watch_engine(work: NodeWork, gpus: Gpus, judges: Judges, handle: EngineHandle) -> None:
    """Check one engine: whether it has ended, whether it is ready, and its rates."""
    if handle.exit is not None or worker_process.has_ended(handle.worker):
        await engine_ended(work, gpus, judges, handle)
    elif handle.row.state in {"starting", "loading"} and not handle.doomed:
        await look_for_ready(work.records, work.engines, gpus, handle)
    elif handle.row.state == "ready" and not handle.doomed:
        await watch_ready(work, gpus, handle)
    else:
        await escalate(work.records, work.engines, gpus, handle)


async def escalate(records: Records, engines: Engines, gpus: Gpus, handle: EngineHandle) -> None:
    """Take the next step of an engine's stop, if it is due. An engine that cannot be ended keeps its lease, and its GPU
    is quarantined."""
    if handle.doomed and handle.ladder.step < StopStep.KILL:
        await asyncio.to_thread(mark_doomed, records, handle)
    first = StopStep.KILL if handle.doomed else StopStep.TERM
    entered = await climb(handle.ladder, handle.worker, first, Patience.of(records.config.settings))
    if entered and handle.ladder.step is StopStep.STUCK:
        reason = f"{handle.row.name} {StopStep.STUCK.words}: {await told_of(handle.ladder, handle.worker)}"
        async with records.change() as change:
            await change.note("engine.stuck", engine=handle.row.name, text=reason)
            await condition_store.quarantine(records, engines, gpus, change, handle.row.lease, reason)


def mark_doomed(records: Records, handle: EngineHandle) -> None:
    """Note in the engine's run directory that the daemon kills it, so that runners can tell that from a kill from
    outside."""
    with contextlib.suppress(OSError):
        (records.engine_folder(handle.row.id) / DOOMED).touch()


async def look_for_ready(records: Records, engines: Engines, gpus: Gpus, handle: EngineHandle) -> None:
    """Ask a loading engine for its health; stop one that takes too long."""
    row = handle.row
    try:
        found = await engine_questions.health(Path(row.socket))
    except NoAnswerError:
        found = None
    if found is None or found.attempt not in {"", row.uuid}:
        if time.monotonic() - handle.started > records.config.settings.engine_start_timeout_s:
            push_back(records, engines, handle.serves)
            await unload(records, engines, gpus, handle, NOT_IN_TIME)
        return
    if elsewhere := on_other_device(row.lease, found.device_id):
        push_back(records, engines, handle.serves)
        await unload(records, engines, gpus, handle, elsewhere)
        return
    if not await still_those_weights(records, row.weights_path, row.weights_sha256):
        await unload(records, engines, gpus, handle, "its file was replaced while it was loading")
        return
    fit = remembered_load(engines, handle)
    async with records.change() as change:
        await save_fit(change.db, fit)
        await update_engine(change.db, row.id, state="ready", health=msgspec.json.encode(found).decode())
        await forget_load_failures(change.db, row.weights_sha256)
        await tell(engines, change, row, "ready", f"is ready on {label(engines.leases, row.lease)}")
    await run_archive.keep_engine(records, row.id)
    refreshed = await get_engine(records.store, row.id)
    assert refreshed is not None
    engines.leasing.learn([fit])
    handle.row, handle.idle_since, handle.beat_at = refreshed, time.monotonic(), time.monotonic()


def on_other_device(lease: str, device_id: str) -> str:
    """Return why an engine is refused that computes on another device than its lease; empty if it does not, or does not
    say."""
    same = device_id.removeprefix("GPU-").removeprefix("MIG-") == lease.removeprefix("GPU-").removeprefix("MIG-")
    if not is_gpu(lease) or same or config.marker("RWKVCTL_TEST_DEVICE"):
        return ""
    return f"it computes on {device_id or 'the CPU'}, not on its lease {lease}"


def remembered_load(engines: Engines, handle: EngineHandle) -> FitRow:
    """Return the known fit of such engines, updated with how long this one took to load."""
    fit = engines.leasing.fit(handle.row.weights_sha256, handle.row.numerics, device_of(engines, handle.row.lease))
    took_s = time.monotonic() - handle.started
    return replace(fit, load_s=took_s if not fit.load_s else (fit.load_s + took_s) / 2)


def device_of(engines: Engines, lease: str) -> str:
    """Return the kind of device of a lease; the lease's own name if it does not exist any more."""
    return next((device_name(view) for view in engines.leases or () if view.id == lease), lease)


async def still_those_weights(records: Records, path: str, sha256: str) -> bool:
    """Whether the file at a path is the one with this hash, judged by the file's identity, not its content."""
    return await sha256_at(records, path) == sha256


async def sha256_at(records: Records, path: str) -> str | None:
    """Return the hash of the file at a path by its identity: empty if it is yet to be hashed, None if there is no
    file."""
    try:
        identity = identity_of(Path(path))
    except OSError:
        return None
    return (await sha256_of(records.store, identity))[0]


async def watch_ready(work: NodeWork, gpus: Gpus, handle: EngineHandle) -> None:
    """Check the step counter in the liveness file, which moves every second while the engine lives. An engine whose
    counter stands still hangs, and is killed: its jobs go on with another."""
    beat = await asyncio.to_thread(read_beat, work.records.engine_folder(handle.row.id) / "live")
    clock = time.monotonic()
    if beat != handle.beat:
        handle.beat, handle.beat_at = beat, clock
    if clock - handle.beat_at > work.records.config.settings.engine_hang_s:
        handle.doomed = f"it made no progress for {clock - handle.beat_at:.0f} s"
        stacks = await asyncio.to_thread(
            stall_detection.dump, handle.worker, work.records.engine_folder(handle.row.id) / "log.txt"
        )
        async with work.records.change() as change:
            text = f"{handle.row.name} has made no progress for {clock - handle.beat_at:.0f} s; it is killed"
            await change.note("engine.stall", engine=handle.row.name, text=text, data={"stacks": stacks})
        await escalate(work.records, work.engines, gpus, handle)
    elif clock - handle.beat_at < QUIET_S:
        await refresh_stats(work.records, work.running, work.engines, handle)


def read_beat(path: Path) -> int:
    """Return the step counter; -1 before the engine has made the file."""
    try:
        data = path.read_bytes()[:8]
    except FileNotFoundError:
        return -1
    return int.from_bytes(data, "little") if len(data) == 8 else -1


async def refresh_stats(records: Records, running: RunningJobs, engines: Engines, handle: EngineHandle) -> None:
    """Ask for statistics once a second; a busy engine that does not answer keeps its last ones."""
    if time.monotonic() - handle.asked < STATS_EVERY_S:
        return
    handle.asked = time.monotonic()
    try:
        handle.stats = await engine_questions.stats(Path(handle.row.socket))
    except NoAnswerError:
        return
    handle.last_seen = time.monotonic()
    await remember_shrinking(records, engines, handle)
    data = msgspec.to_builtins(engine_views.engine_view(running, handle))
    records.bus.publish([event_bus.live_event("engine.stats", engine=handle.row.name, data=data)])
    if handle.last_seen - handle.started > STABLE_S:
        engines.back_off.pop(handle.serves, None)


async def remember_shrinking(records: Records, engines: Engines, handle: EngineHandle) -> None:
    """Store how many sequences are left of an engine that ran out of memory: the next one starts with as many."""
    stats = handle.stats
    if stats is None or not stats.shrunk or stats.slots == handle.shrunk_to:
        return
    handle.shrunk_to = stats.slots
    fit = engines.leasing.fit(handle.row.weights_sha256, handle.row.numerics, device_of(engines, handle.row.lease))
    if fit.slots and fit.slots <= stats.slots:
        return
    await learn(records, engines, replace(fit, slots=stats.slots), f"{handle.row.name} ran out of memory")


async def learn(records: Records, engines: Engines, fit: FitRow, why: str) -> None:
    """Store how many sequences fit on such a device, and report it as an event."""
    async with records.change() as change:
        await save_fit(change.db, fit)
        text = f"{why}: the next such engine starts with {fit.slots} sequences at once"
        await change.note("engine.memory", text=text)
    engines.leasing.learn([fit])


async def unload(records: Records, engines: Engines, gpus: Gpus, handle: EngineHandle, why: str) -> None:
    """Stop an engine. Its lease is free only when its process is gone."""
    async with records.change() as change:
        await update_engine(change.db, handle.row.id, state="unloading", detail=why)
        await tell(engines, change, handle.row, "unloading", f"is unloaded: {why}")
    refreshed = await get_engine(records.store, handle.row.id)
    assert refreshed is not None
    handle.row = refreshed
    await escalate(records, engines, gpus, handle)


async def engine_ended(work: NodeWork, gpus: Gpus, judges: Judges, handle: EngineHandle) -> None:
    """Handle the end of an engine's processes: wanted, refused its checkpoint, or crashed. The consequences are stored
    before the handle is forgotten."""
    if handle.exit is None:
        await asyncio.to_thread(worker_process.sweep, handle.row.uuid)
        if await asyncio.to_thread(remains, handle.worker):  # only the shim is gone: the lease is not free yet
            await escalate(work.records, work.engines, gpus, handle)
            return
        handle.exit, handle.ended_at = (await asyncio.to_thread(handle.worker.close),), time.monotonic()
        cgroups.remove_for(handle.worker.record.cgroup)
        Path(handle.row.socket).unlink(missing_ok=True)
    record = handle.exit[0]
    loading = handle.row.state in {"starting", "loading"}
    code = record.code if record is not None and loading else None
    if handle.row.state == "unloading":
        faulty = handle.row.detail if is_fault(handle.row.detail) else ""
        await engine_gone(
            work.records, work.engines, gpus, handle.row, handle.row.detail, failed=bool(faulty), fault=faulty
        )
    elif record is not None and record.code == UNLOADED:  # it unloaded itself just before the daemon came back
        await engine_gone(work.records, work.engines, gpus, handle.row, ALONE, failed=False)
    elif code == DOES_NOT_LOAD:
        push_back(work.records, work.engines, handle.serves)
        await refused(work, gpus, judges, handle.row)
    elif code == OUT_OF_MEMORY:
        await did_not_fit(work, gpus, judges, handle)
    elif waits_for_a_look(work.records, gpus, handle):
        return
    else:
        await ended_unasked(work, gpus, judges, handle, record)
    work.engines.live.pop(handle.row.id, None)


def waits_for_a_look(records: Records, gpus: Gpus, handle: EngineHandle) -> bool:
    """Whether the GPU has not been sampled since an engine ended on it: a fault of the GPU may only be seen then, and
    it decides what is to blame."""
    watched = handle.row.lease in gpus.watch_state.records and not gpus.watch_state.trouble
    unseen = watched and gpus.watch_state.seen_at < handle.ended_at + FRESH_S
    late = time.monotonic() - handle.ended_at > records.config.settings.sampler_deadline_s + NO_LOOK_S
    return unseen and not late


async def ended_unasked(
    work: NodeWork, gpus: Gpus, judges: Judges, handle: EngineHandle, record: ShimRecord | None
) -> None:
    """Handle an end that the daemon did not want. The GPU, somebody outside, or the engine with its work is to blame;
    only in the last case it counts against the jobs that it served."""
    row, cause = handle.row, "fault" if handle.doomed else engine_cause(record)
    why = f"it ended unexpectedly ({handle.doomed or how(record)}); see its log"
    if broken := broken_hardware(gpus, row.lease):
        why = f"it ended unexpectedly ({handle.doomed or how(record)}) because of its GPU: {broken}"
        await engine_gone(work.records, work.engines, gpus, row, why, failed=True, fault=why)
    elif cause == "outside":
        got_on = await kill_counts.engine_killed(work, judges, row.id, row.name, how(record))
        hold_off(work.records, work.engines, handle.serves, afresh=got_on)
        await engine_gone(work.records, work.engines, gpus, row, f"it was ended ({how(record)})", failed=True)
    else:
        if not await poison_jobs.engine_died(work.records, work.waiting, work.running, row.id, why):
            push_back(work.records, work.engines, handle.serves)
        spared = cause == "memory" or await poison_jobs.is_suspected(work.records, work.running, row.id)
        await engine_gone(work.records, work.engines, gpus, row, why, failed=True, fault="" if spared else why)


def broken_hardware(gpus: Gpus, lease: str) -> str:
    """Return what the driver reports as wrong with the GPU of a lease; empty for nothing."""
    record = gpus.watch_state.records.get(lease)
    if record is not None and record.quarantine and record.cause == "hardware":
        return record.quarantine
    clock = time.monotonic()
    recent = [code for (gpu, code), at in gpus.watch_state.xids.items() if gpu == lease and clock - at < XID_S]
    return next((xid_rules.sentence(code) for code in recent if xid_rules.is_hardware(code)), "")


def is_fault(detail: str) -> bool:
    """Whether an engine was unloaded for a fault of the GPU or the process, not because its place was needed."""
    return detail == NOT_IN_TIME or detail.startswith("it computes on ")


async def did_not_fit(work: NodeWork, gpus: Gpus, judges: Judges, handle: EngineHandle) -> None:
    """Handle an engine that ran out of memory while loading: the next one starts with fewer sequences. If even the
    smallest does not fit, the model is too large for such a device, which counts against neither the job nor the
    GPU."""
    row, device = handle.row, device_of(work.engines, handle.row.lease)
    fit = work.engines.leasing.fit(row.weights_sha256, row.numerics, device)
    why = last_line(work.records.engine_folder(row.id) / "log.txt") or "the engine ran out of memory"
    smaller = memory_fit.next_smaller(fit.slots)
    size = next((lease.memory_total_bytes or 0 for lease in work.engines.leases or () if lease.id == row.lease), 0)
    if not smaller and not size:  # nothing could be learned that would keep the next one from trying the same
        push_back(work.records, work.engines, handle.serves)
        await refused(work, gpus, judges, row)
        return
    await engine_gone(work.records, work.engines, gpus, row, why, failed=True)
    await learn(
        work.records, work.engines, replace(fit, slots=smaller) if smaller else replace(fit, bytes=size + 1), why
    )


def push_back(records: Records, engines: Engines, serves: EngineKind) -> None:
    """Double the wait before the next start of the same kind of engine."""
    back_off = engines.back_off.setdefault(serves, EngineBackOff())
    wait = records.config.settings.restart_backoff_s * 2 ** min(back_off.failures, 8)
    back_off.failures += 1
    back_off.not_before = time.monotonic() + wait


def hold_off(records: Records, engines: Engines, serves: EngineKind, *, afresh: bool) -> None:
    """Delay the next start after an end from outside: the first costs no time, and none counts as a failure. `afresh`:
    work has made progress since the previous one."""
    back_off = engines.back_off.setdefault(serves, EngineBackOff())
    back_off.kills = 1 if afresh else back_off.kills + 1
    wait = outside_kills.pause_s(records.config.settings.restart_backoff_s, back_off.kills, random.Random())
    back_off.not_before = time.monotonic() + (wait if back_off.kills > 1 else 0.0)


async def refused(work: NodeWork, gpus: Gpus, judges: Judges, row: EngineRow) -> None:
    """Handle an engine that cannot load its checkpoint. After the second time all jobs of these weights are held."""
    why = last_line(work.records.engine_folder(row.id) / "log.txt") or "the engine gave no reason"
    if not await still_those_weights(work.records, row.weights_path, row.weights_sha256):
        # another file was loaded, so this says nothing about the weights
        await engine_gone(work.records, work.engines, gpus, row, why, failed=True)
        return
    async with work.records.change() as change:
        failures = await count_load_failure(change.db, row.weights_sha256, why)
    await engine_gone(work.records, work.engines, gpus, row, why, failed=True)
    if failures >= MAX_LOAD_FAILURES:
        await hold_all(work, judges, row.weights_sha256, "does-not-load", why)


async def hold_all(work: NodeWork, judges: Judges, sha256: str, reason: Reason, why: str) -> None:
    """Hold every job of weights that do not load, thousands in one transaction; running ones are stopped first."""
    found = [
        *await jobs_in(work.records.store, ("queued",), limit=1_000_000),
        *await jobs_by_id(work.records.store, work.running.runners),
    ]
    async with work.records.change() as change:
        for job in found:
            if job.weights_sha256 == sha256 and (job.state == "queued" or job.state in ACTIVE):
                await put_aside_in(judges, change, job, "hold", reason, why)
    await apply(work.records, work.waiting.pauses, work.running)


async def engine_gone(
    records: Records, engines: Engines, gpus: Gpus, row: EngineRow, why: str, *, failed: bool, fault: str = ""
) -> None:
    """Free the lease of an engine whose process is gone. A `fault` of the process or the device counts against its GPU.
    The socket file of a killed engine is removed."""
    Path(row.socket).unlink(missing_ok=True)
    async with records.change() as change:
        state: EngineState = "failed" if failed else "gone"
        await update_engine(change.db, row.id, state=state, detail=why, ended=now())
        await free_lease(change.db, row.id)
        if fault:
            await condition_store.engine_failed(records, engines, gpus, change, row.lease, f"{row.name}: {fault}")
        await tell(engines, change, row, state, f"is {state}: {why}")


async def tell(engines: Engines, change: Change, row: EngineRow, state: EngineState, what: str) -> None:
    """Store an event about an engine's new state, with the engine as it is then."""
    view = EngineView(
        id=row.name, model=row.model, numerics=row.numerics, lease=row.lease, state=state, detail=row.detail
    )
    data = msgspec.to_builtins(view)
    await change.note("engine.state", engine=row.name, text=f"{row.name} {row.model} {what}", data=data)
    holds = state not in {"gone", "failed"}
    for lease in engines.leases or []:
        if lease.id == row.lease:
            now_held = msgspec.structs.replace(lease, use="leased", engine=row.name) if holds else lease
            change.events.append(event_bus.live_event("lease", data=msgspec.to_builtins(now_held)))
