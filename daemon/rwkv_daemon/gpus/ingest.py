"""Takes in the sampler's snapshots: updates use and condition of each GPU, and notes the resulting events."""

import asyncio
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import condition_store, presenter, self_test, xid_rules
from rwkv_daemon.gpus.condition_rules import ConditionRecord, GpuMeasured
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.usage_rules import GpuObservation, idle_since, use_of
from rwkv_daemon.gpus.watch_state import LastHolders
from rwkv_daemon.gpus.zombies import gpu_holders
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.gpu_facts import Gpu, GpuReading, GpuSnapshot, Holder, Xid
from rwkv_daemon.scheduling.live_engines import EngineHandle, Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkvctl.settings import config

LOOK_S: Final = 10.0
"""How long reading the processes may take on a machine that does not hang."""
QUIET_LOOK_S: Final = 5.0
"""Seconds between two readings of the processes of a GPU that has none."""
QUIET_BYTES: Final = 256 * 2**20
XID_TOLD_S: Final = 60.0
"""The same XID of the same GPU is one event a minute: storms of tens of thousands were seen."""

Seen = tuple[GpuReading, tuple[Holder, ...]]


async def take(work: NodeWork, gpus: Gpus, snapshot: GpuSnapshot) -> None:
    """Take in one snapshot of all GPUs."""
    at, watch_state = time.monotonic(), gpus.watch_state
    seen = identified(gpus, snapshot.readings)
    readings = [*seen, *missing(gpus, snapshot, {reading.id for reading in seen})]
    due = [reading for reading in readings if wants_look(gpus, reading, at)]
    if due:
        watch_state.held.update(
            {reading.id: LastHolders(at, listed(reading), h) for reading, h in await looked_at(work, gpus, due)}
        )
    readings = [unseen(reading) if reading.id in watch_state.blind else reading for reading in readings]
    watch_state.seen_at, watch_state.driver, watch_state.trouble = at, snapshot.driver, ""
    watch_state.self_test = self_test.fault(
        readings, own_pids(work.engines), pid_max(), lambda pid: Path(f"/proc/{pid}").exists()
    )
    for reading in readings:
        await judge(work.records, work.engines, gpus, reading, at)
    for gone in gpus.by_id.keys() - {reading.id for reading in readings}:
        condition_store.forget(gpus, gone)
    presenter.publish(work.records, work.engines, gpus)
    await condition_store.settle(work.records, gpus)


async def lose(records: Records, engines: Engines, gpus: Gpus, why: str) -> None:
    """Handle that nothing can be sampled: the use of all GPUs is unknown, none takes work or is reaped, and what runs
    goes on."""
    at, watch_state = time.monotonic(), gpus.watch_state
    watch_state.trouble, watch_state.self_test = why, why
    for gpu in list(gpus.by_id.values()):
        known = GpuReading(id=gpu.id, index=gpu.reading.index, slot=gpu.reading.slot, name=gpu.reading.name,
                        parent=gpu.reading.parent, trouble=why)  # fmt: skip
        await judge(records, engines, gpus, known, at)
    presenter.publish(records, engines, gpus)
    await condition_store.settle(records, gpus)


def identified(gpus: Gpus, readings: Iterable[GpuReading]) -> list[GpuReading]:
    """Return the readings, each under its UUID. A lost card does not report its UUID: it is taken for the GPU that was
    at its index, if that is nowhere else."""
    readings = list(readings)
    named = {reading.id for reading in readings} | {reading.parent for reading in readings}
    found: list[GpuReading] = []
    for reading in readings:
        was = [k for k in gpus.watch_state.inventory.values() if k.index == reading.index and k.id not in named]
        if not reading.id.startswith("gpu-index-") or not was:
            found.append(reading)
            continue
        found += [
            msgspec.structs.replace(reading, id=k.id, name=k.name, parent=k.parent, slot=k.slot) for k in was
        ]  # fmt: skip
    return found


def missing(gpus: Gpus, snapshot: GpuSnapshot, seen: set[str]) -> list[GpuReading]:
    """Return readings with the reason for GPUs of the inventory that were not sampled, and for those that hung before
    they were ever seen. Instances of a card that was partitioned anew are forgotten: an administrator did that."""
    cards = {reading.parent or reading.id for reading in snapshot.readings}
    found: list[GpuReading] = []
    for known in gpus.watch_state.inventory.values():
        if known.id in seen or (known.parent or known.id) in cards:
            continue
        if known.index in snapshot.left_out:
            trouble = hangs(gpus, known.index)
        else:
            trouble = f"the driver does not list it any more; it was GPU {known.index}"
        found.append(
            GpuReading(
                id=known.id, index=known.index, slot=known.slot, name=known.name, parent=known.parent, trouble=trouble
            )
        )
    at = {known.index for known in gpus.watch_state.inventory.values()}
    never = [index for index in snapshot.left_out if index not in at]
    return found + [GpuReading(id=f"gpu-index-{index}", index=index, trouble=hangs(gpus, index)) for index in never]


def hangs(gpus: Gpus, index: int) -> str:
    """Return why a GPU is not sampled at present."""
    since = gpus.watch_state.left_out.get(str(index), "")
    return f"the driver hangs when asked about it (since {since}); what runs there goes on"


def wants_look(gpus: Gpus, reading: GpuReading, at: float) -> bool:
    """Whether to read its processes now: at every sample if there are some, or if memory in use is not explained."""
    held = gpus.watch_state.held.get(reading.id)
    if reading.trouble:
        return False
    if held is None or held.listed != listed(reading) or reading.processes or listed(reading)[-1]:
        return True
    return at - held.at >= QUIET_LOOK_S


def pids(reading: GpuReading) -> frozenset[int]:
    """Return the pids of the processes that NVML lists on a GPU."""
    return frozenset(process.pid for process in reading.processes or ())


def listed(reading: GpuReading) -> tuple[object, ...]:
    """Return what NVML lists of a GPU; if that changes, the processes are read again."""
    return reading.processes is None, pids(reading), (reading.memory_used_bytes or 0) > QUIET_BYTES


async def looked_at(work: NodeWork, gpus: Gpus, due: Iterable[GpuReading]) -> list[Seen]:
    """Return the holders of each of these GPUs, as far as they can be read in time. A GPU whose processes cannot be
    read is left out until that reading has come back; the others are read the next time."""
    blind = gpus.watch_state.blind = {gpu: look for gpu, look in gpus.watch_state.blind.items() if not look.done()}
    wanted = [reading for reading in due if reading.id not in blind]
    order, found = [reading.id for reading in wanted], list[Seen]()
    look = asyncio.ensure_future(asyncio.to_thread(look_at_processes, work, gpus, wanted, found))
    await asyncio.wait([look], timeout=LOOK_S)
    seen = found.copy()
    if not look.done() and len(seen) < len(order):
        wanted.clear()
        blind[order[len(seen)]] = look
        log.error("reading the processes on %s hangs in the kernel; the use of the GPU is unknown", order[len(seen)])
    return seen


def look_at_processes(work: NodeWork, gpus: Gpus, readings: list[GpuReading], found: list[Seen]) -> None:
    """Read the holders of each GPU, in a thread; stops early if the list is emptied. If reading fails, no holder is
    known, and what NVML lists counts as somebody's."""
    for reading in readings:
        try:
            found.append((reading, gpu_holders.look(work, gpus, reading)))
        except Exception:  # noqa: BLE001 - logged; a look at processes must not end the watch of all GPUs
            log.exception("the processes on %s cannot be looked at", reading.id)
            found.append((reading, ()))


def unseen(reading: GpuReading) -> GpuReading:
    """Return the reading of a GPU whose processes cannot be read: it takes no work, and what runs there goes on."""
    why = "a process on it hangs in the kernel, and so does reading its files; see `dmesg`, a reboot may be needed"
    return msgspec.structs.replace(reading, trouble=reading.trouble or why)


async def judge(records: Records, engines: Engines, gpus: Gpus, reading: GpuReading, at: float) -> None:
    """Derive use, condition and events of a GPU from one reading."""
    watch_state, before = gpus.watch_state, gpus.by_id.get(reading.id)
    identity = not reading.id.startswith("gpu-index-")
    if identity and not reading.trouble:
        condition_store.remember(gpus, reading)
    record = watch_state.records.get(reading.id, ConditionRecord())
    newcomer = bool(pids(reading) - watch_state.pids.get(reading.id, pids(reading)))
    since = idle_since(watch_state.idle_since.get(reading.id), reading.utilisation, at, newcomer=newcomer)
    watch_state.idle_since[reading.id], watch_state.pids[reading.id] = since, pids(reading)
    held = watch_state.held.get(reading.id)
    probe = watch_state.probes.get(reading.id)
    look = GpuObservation(
        reading=reading,
        holders=held.holders if held and not reading.trouble else (),
        engines=engines_on(engines, reading.id),
        idle_s=None if since is None else at - since,
        window_s=records.config.settings.gpu_idle_window_s,
        probe=probe.text if probe else "",
    )
    verdict = use_of(look)
    gpu = Gpu(
        reading=reading, use=verdict.use, holders=look.holders, why=verdict.why, contended=verdict.contended,
        idle_s=look.idle_s,
    )  # fmt: skip
    gpus.by_id[reading.id] = condition_store.conditioned(gpu, record)
    if reading.id in watch_state.records:
        text = condition_store.apply(gpus, reading.id, GpuMeasured(reading, free=verdict.use == "free"))
        if text:
            tell(gpus, reading.id, "gpu.state", text)
    if before is not None:
        compare(gpus, before, gpus.by_id[reading.id])
    note_contention(gpus, gpus.by_id[reading.id])
    for event in reading.xids:
        await xid_happened(records, engines, gpus, gpus.by_id[reading.id], event, at)


def engines_on(engines: Engines, gpu_id: str) -> tuple[str, ...]:
    """Return the names of our engines that hold a lease on a GPU."""
    return tuple(handle.row.name for handle in engines.live.values() if handle.row.lease == gpu_id)


def own_pids(engines: Engines) -> dict[str, list[int]]:
    """Return the pids of our engines that compute now, by GPU."""
    found: dict[str, list[int]] = {}
    if config.marker("RWKVCTL_TEST_DEVICE"):
        return found
    for handle in engines.live.values():
        if handle.row.state == "ready":
            found.setdefault(handle.row.lease, []).append(handle.worker.pid)
    return found


@cache
def pid_max() -> int:
    """Return the upper bound of pids on this machine, from /proc/sys/kernel/pid_max."""
    return int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))


def compare(gpus: Gpus, before: Gpu, now_is: Gpu) -> None:
    """Note the changes of use that are events: a GPU lost or back, a zombie come or gone."""
    news = before.use != now_is.use and before.why != condition_store.NOT_LOOKED_AT
    if not news or not {before.use, now_is.use} & {"unknown", "zombie"}:
        return
    why = f": {now_is.why}" if now_is.why else ""
    tell(gpus, now_is.id, "gpu.use", f"{presenter.label(now_is)} is {now_is.use} (it was {before.use}){why}")


def note_contention(gpus: Gpus, gpu: Gpu) -> None:
    """Note who computes beside an engine of ours, for an event and for the provenance of scores measured meanwhile."""
    contended = gpus.watch_state.contended
    if gpu.contended and gpu.id not in contended:
        contended[gpu.id] = gpu.why
        tell(gpus, gpu.id, "gpu.use", f"{presenter.label(gpu)}: {gpu.why}")
    elif not gpu.contended and contended.pop(gpu.id, None) is not None:
        tell(gpus, gpu.id, "gpu.use", f"{presenter.label(gpu)} has no other process beside an engine any more")


def tell(gpus: Gpus, gpu_id: str, kind: str, text: str) -> None:
    """Note an event about a GPU, to be stored when the store can be written. Only one about its condition carries
    that."""
    gpu = gpus.by_id[gpu_id]
    data = msgspec.to_builtins(presenter.lease_of(gpu))
    brief = {"id": gpu_id, "index": data["index"], "use": gpu.use}
    gpus.watch_state.tell(kind, text, data if kind == "gpu.state" else brief)


async def xid_happened(records: Records, engines: Engines, gpus: Gpus, gpu: Gpu, event: Xid, at: float) -> None:
    """Note an XID error, each code of a GPU once a minute. An engine whose CUDA context it has ended is killed and
    replaced."""
    engine = next((h for h in engines.live.values() if event.pid and h.worker.pid == event.pid), None)
    whose = engine.row.name if engine else f"pid {event.pid}" if event.pid else ""
    if at - gpus.watch_state.xids.get((gpu.id, event.code), at - 2 * XID_TOLD_S) >= XID_TOLD_S:
        gpus.watch_state.xids[gpu.id, event.code] = at
        hit = f", hit {whose}" if whose else ""
        tell(gpus, gpu.id, "gpu.xid", f"{presenter.label(gpu)}: {xid_rules.sentence(event.code)}{hit}")
    if engine is not None and event.code in xid_rules.ENDS_THE_CONTEXT:
        mark_for_kill(records, engine, event)


def mark_for_kill(records: Records, engine: EngineHandle, event: Xid) -> None:
    """Mark an engine without its CUDA context, which cannot answer any more, to be killed in the next round."""
    log.error("%s: its CUDA context ended with %s; it is killed", engine.row.name, xid_rules.sentence(event.code))
    engine.doomed = engine.doomed or f"its CUDA context ended with {xid_rules.sentence(event.code)}"
    records.wake.set()
