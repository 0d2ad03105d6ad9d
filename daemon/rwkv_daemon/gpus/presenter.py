"""GPUs as clients see them: rounded, so that small fluctuations are not streamed."""

import msgspec

from rwkv_daemon.changes import event_bus
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.rules.gpu_facts import Gpu
from rwkv_daemon.scheduling.live_engines import Engines
from rwkvctl.protocol.views import LeaseView

CPU = LeaseView(id="cpu:0", name="CPU")
MEMORY_STEP = 16 * 2**20
POWER_STEP_W = 5.0
NOTE = "GPUs: "
"""How notes about GPUs begin."""


def label(gpu: Gpu) -> str:
    """Return the name that people use: `GPU 3`, `GPU 3:1` for a MIG instance."""
    reading = gpu.reading
    slot = "" if reading.slot is None else f":{reading.slot}"
    return f"GPU {reading.index}{slot}"


def lease_of(gpu: Gpu) -> LeaseView:
    """Return what clients are streamed of a GPU."""
    reading = gpu.reading
    used = reading.memory_used_bytes
    return LeaseView(
        id=gpu.id,
        index=label(gpu).removeprefix("GPU "),
        name=reading.name,
        use=gpu.use,
        condition=gpu.condition,
        why=gpu.why,
        reason=gpu.reason,
        contended=gpu.contended,
        memory_used_bytes=None if used is None else round(used / MEMORY_STEP) * MEMORY_STEP,
        memory_total_bytes=reading.memory_total_bytes,
        utilisation=None if reading.utilisation is None else round(reading.utilisation, 2),
        power_w=None if reading.power_w is None else round(reading.power_w / POWER_STEP_W) * POWER_STEP_W,
        temperature_c=None if reading.temperature_c is None else round(reading.temperature_c),
    )


def place(gpu: Gpu) -> tuple[int, int, str]:
    """Return the sort key of GPUs in lists: index, then slot (a whole card before its instances), then id."""
    return gpu.reading.index, -1 if gpu.reading.slot is None else gpu.reading.slot, gpu.id


def publish(records: Records, engines: Engines, gpus: Gpus) -> None:
    """Update `engines.leases` from the GPUs, stream the changes, and wake the supervisor if work may start now."""
    before = {lease.id: lease for lease in engines.leases or ()}
    records.notes[:] = [*(note for note in records.notes if not note.startswith(NOTE)), *notes(gpus)]
    engines.leases = [*map(lease_of, sorted(gpus.by_id.values(), key=place)), CPU]
    changed = [lease for lease in engines.leases if before.get(lease.id) != lease]
    records.bus.publish(event_bus.live_event("lease", data=msgspec.to_builtins(lease)) for lease in changed)
    if any(matters(before.get(lease.id), lease) for lease in changed):
        records.wake.set()


def notes(gpus: Gpus) -> list[str]:
    """Return problems of the watch or of a GPU, for `status`."""
    watch_state = gpus.watch_state
    found = [watch_state.trouble] if watch_state.trouble else []
    for gpu in sorted(gpus.by_id.values(), key=place):
        if not watch_state.trouble and (gpu.use == "zombie" or gpu.reading.trouble):
            found.append(f"{label(gpu)} is {gpu.use}: {gpu.why}")
        if gpu.condition == "quarantined":
            found.append(f"{label(gpu)} is quarantined: {gpu.reason}")
    if "events" in watch_state.left_out:
        found.append("the driver hangs when it is asked for XID events: other signs of trouble are still watched")
    return [NOTE + note for note in found]


def matters(before: LeaseView | None, now: LeaseView) -> bool:
    """Whether use or condition changed, and not only figures."""
    return before is None or (before.use, before.condition) != (now.use, now.condition)
