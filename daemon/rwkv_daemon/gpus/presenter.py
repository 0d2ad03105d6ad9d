"""GPUs as clients see them: rounded, so that a number that only trembles is no news."""

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
"""How the notes begin that are about GPUs."""


def label(gpu: Gpu) -> str:
    """What people call it: `GPU 3`, `GPU 3:1` for an instance of a divided card."""
    reading = gpu.reading
    slot = "" if reading.slot is None else f":{reading.slot}"
    return f"GPU {reading.index}{slot}"


def lease_of(gpu: Gpu) -> LeaseView:
    """What a client is streamed of a GPU."""
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
    """Make `engines.leases` what the GPUs are, stream what has changed, and wake the supervisor where that lets work
    start."""
    before = {lease.id: lease for lease in engines.leases or ()}
    records.notes[:] = [*(note for note in records.notes if not note.startswith(NOTE)), *notes(gpus)]
    engines.leases = [*map(lease_of, sorted(gpus.by_id.values(), key=place)), CPU]
    changed = [lease for lease in engines.leases if before.get(lease.id) != lease]
    records.bus.publish(event_bus.passing("lease", data=msgspec.to_builtins(lease)) for lease in changed)
    if any(matters(before.get(lease.id), lease) for lease in changed):
        records.wake.set()


def notes(gpus: Gpus) -> list[str]:
    """What is wrong with the watch, or with a GPU, for `status`."""
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
    """Whether a change is of use or condition, not of numbers alone."""
    return before is None or (before.use, before.condition) != (now.use, now.condition)
