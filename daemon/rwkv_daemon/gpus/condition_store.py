"""The conditions of the GPUs in memory and in the store.

A record changes in memory first and is stored with the next transaction. If the store cannot be written (disk full),
that is delayed; only a very long outage loses events.
"""

import time
from typing import Final

import msgspec

from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import presenter
from rwkv_daemon.gpus.condition_rules import (
    ConditionRecord,
    EngineFailed,
    GpuEvent,
    Quarantine,
    after,
    lasting,
    restored,
    shown,
)
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.watch_state import InventoryGpu
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.gpu_facts import Gpu, GpuReading
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.gpus import (
    GpuRow,
    begin_contention,
    end_contention,
    forget_gpu,
    known_gpus,
    open_contention,
    save_gpus,
)
from rwkv_daemon.store.wall_time import now

NOT_LOOKED_AT: Final = "it has not been sampled yet"


async def engine_failed(records: Records, engines: Engines, gpus: Gpus, change: Change, gpu_id: str, why: str) -> None:
    """Record that an engine ended abnormally on a GPU and its model is not to blame: cooldown, then suspect, then
    quarantined."""
    await happen(records, engines, gpus, change, gpu_id, EngineFailed(why))


async def quarantine(records: Records, engines: Engines, gpus: Gpus, change: Change, gpu_id: str, reason: str) -> None:
    """Record that a process on a GPU cannot be ended: no new engine starts until it is gone and the GPU is free."""
    await happen(records, engines, gpus, change, gpu_id, Quarantine(reason, "process"))


async def happen(records: Records, engines: Engines, gpus: Gpus, change: Change, gpu_id: str, event: GpuEvent) -> bool:
    """Apply an event to a GPU in the caller's transaction; returns whether its condition changed. The CPU, and ids of
    other nodes' GPUs, have no condition."""
    if gpu_id not in gpus.watch_state.records:
        return False
    text = apply(gpus, gpu_id, event)
    await save_gpus(change.db, [row_of(gpus, gpu_id)])
    if text:
        await change.note("gpu.state", text=text, data=msgspec.to_builtins(presenter.lease_of(gpus.by_id[gpu_id])))
        presenter.publish(records, engines, gpus)
    return bool(text)


def apply(gpus: Gpus, gpu_id: str, event: GpuEvent) -> str:
    """Change the record, and the GPU as it is shown; returns a sentence if its condition or the reason changed."""
    before = gpus.watch_state.records[gpu_id]
    record = after(before, event, time.monotonic())
    old, new = shown(before), shown(record)
    if old != new:
        record = msgspec.structs.replace(record, since=now())
    gpus.watch_state.records[gpu_id] = record
    if (gpu := gpus.by_id.get(gpu_id)) is not None and record != before:
        gpus.by_id[gpu_id] = conditioned(gpu, record)
    if old == new or gpu is None:
        return ""
    condition, reason = new
    return f"{presenter.label(gpu)} is {condition}" + (f": {reason}" if reason else f" again (it was {old[0]})")


def conditioned(gpu: Gpu, record: ConditionRecord) -> Gpu:
    """Return the GPU with the condition of its record."""
    condition, reason = shown(record)
    return msgspec.structs.replace(
        gpu, condition=condition, reason=reason, since=record.since, reserved_for=record.reserved_for
    )


async def restore(records: Records, gpus: Gpus) -> None:
    """Load the inventory and the records of an earlier daemon. Until they are sampled, nothing else is known of these
    GPUs."""
    at, watch_state = time.monotonic(), gpus.watch_state
    for row in await known_gpus(records.store):
        known = InventoryGpu(row.id, row.position, row.name, row.parent, row.slot, row.first_seen)
        record = restored(read_record(row), at)
        watch_state.inventory[row.id], watch_state.records[row.id], watch_state.stored[row.id] = (
            known,
            record,
            (known, lasting(record)),
        )
        reading = GpuReading(id=row.id, index=row.position, slot=row.slot, name=row.name, parent=row.parent)
        gpus.by_id[row.id] = conditioned(Gpu(reading=reading, use="unknown", why=NOT_LOOKED_AT), record)
    watch_state.contended_stored = await open_contention(records.store)


def read_record(row: GpuRow) -> ConditionRecord:
    """Decode a stored record. One that cannot be decoded counts as a quarantine, as it may have been one."""
    try:
        return msgspec.json.decode(row.record, type=ConditionRecord)
    except msgspec.DecodeError as error:
        return ConditionRecord(quarantine=f"its stored record cannot be read ({error})", cause="operator")


def remember(gpus: Gpus, reading: GpuReading) -> None:
    """Add a GPU to the inventory, or update its index."""
    known = gpus.watch_state.inventory.get(reading.id)
    if known is None or not known.matches(reading):
        first_seen = known.first_seen if known else now()
        gpus.watch_state.inventory[reading.id] = InventoryGpu(
            reading.id, reading.index, reading.name, reading.parent, reading.slot, first_seen
        )
        gpus.watch_state.records.setdefault(reading.id, ConditionRecord())


def row_of(gpus: Gpus, gpu_id: str) -> GpuRow:
    """Return what the store keeps of a GPU."""
    known, record = gpus.watch_state.inventory[gpu_id], lasting(gpus.watch_state.records[gpu_id])
    text = msgspec.json.encode(record).decode()
    return GpuRow(known.id, known.parent, known.index, known.slot, known.name, known.first_seen, text)


async def settle(records: Records, gpus: Gpus) -> None:
    """Store what is not stored yet: records, the inventory, contention, and events about them."""
    watch_state = gpus.watch_state
    changed = {i: (known, lasting(watch_state.records[i])) for i, known in watch_state.inventory.items()}
    changed = {i: pair for i, pair in changed.items() if watch_state.stored.get(i) != pair}
    gone = watch_state.stored.keys() - watch_state.inventory.keys()
    contended, pending = dict(watch_state.contended), list(watch_state.pending)
    if not (changed or gone or pending or contended != watch_state.contended_stored):
        return
    try:
        async with records.change() as change:
            await save_gpus(change.db, [row_of(gpus, gpu_id) for gpu_id in changed])
            for gpu_id in gone:
                await forget_gpu(change.db, gpu_id)
            await settle_contention(change, watch_state.contended_stored, contended)
            for kind, text, data in pending:
                await change.note(kind, text=text, data=data)
    except StoreError as error:
        if not records.trouble:
            log.warning("the state of the GPUs cannot be stored now (%s); it is tried again", error)
        return
    watch_state.stored = {i: pair for i, pair in (watch_state.stored | changed).items() if i not in gone}
    watch_state.contended_stored = contended
    watch_state.pending = watch_state.pending[len(pending) :]


async def strike_off(records: Records, engines: Engines, gpus: Gpus, change: Change, gpu_id: str) -> None:
    """Remove a GPU that was taken out of the node, in the caller's transaction."""
    lease = presenter.lease_of(gpus.by_id[gpu_id])
    await forget_gpu(change.db, gpu_id)
    await change.note("gpu.state", text=f"GPU {lease.index} ({gpu_id}) is forgotten", data=msgspec.to_builtins(lease))
    forget(gpus, gpu_id)
    presenter.publish(records, engines, gpus)


async def settle_contention(change: Change, before: dict[str, str], now_there: dict[str, str]) -> None:
    """Store which contention began and which ended since the last time."""
    at = now()
    for gpu_id in before.keys() - now_there.keys():
        await end_contention(change.db, gpu_id, at)
    for gpu_id in now_there.keys() - before.keys():
        await begin_contention(change.db, gpu_id, at, now_there[gpu_id])


def forget(gpus: Gpus, gpu_id: str) -> None:
    """Remove what is kept in memory about a GPU that is not in this node any more."""
    watch_state = gpus.watch_state
    for table in (
        watch_state.inventory,
        watch_state.records,
        watch_state.idle_since,
        watch_state.pids,
        watch_state.held,
        watch_state.contended,
        watch_state.probes,
        gpus.by_id,
    ):
        table.pop(gpu_id, None)
