"""Who uses a GPU: from one reading, the classes of the processes that hold it, our leases, and how long it has been
idle. Pure.

Memory alone says little: a training run between two evaluations holds all of it and computes nothing. Nor does
utilisation: an engine of ours that is kept warm shows none. So both are asked, and the processes as well.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from rwkv_daemon.rules.gpu_facts import GpuReading, Holder, Use

FREE_BYTES: Final = 512 * 1024 * 1024
"""Memory a GPU may have in use and still count as free: the driver's own."""
SETTLE_S: Final = 3.0
"""So long no look may have shown use before a GPU without processes is free: three looks."""
DEAD: Final = frozenset({"orphan", "defunct", "ghost"})
FOREIGN: Final = frozenset({"container", "other-user", "foreign"})
LONGEST_COMMAND: Final = 60


class GpuObservation(NamedTuple):
    """What is known of one GPU at one moment. `engines` are ours that hold a lease on it; `idle_s` is null where use is
    not measured; after `window_s` without use, live work counts as waiting. `probe` is what a reservation's probe
    answered last."""

    reading: GpuReading
    holders: tuple[Holder, ...] = ()
    engines: tuple[str, ...] = ()
    idle_s: float | None = None
    window_s: float = 60.0
    probe: str = ""


class GpuUse(NamedTuple):
    """The use, and why, in a sentence. `contended`: somebody else computes where an engine of ours does."""

    use: Use
    why: str
    contended: bool = False


def use_of(look: GpuObservation) -> GpuUse:
    """First match wins; what is not known is never free."""
    reading, holders = look.reading, significant(look)
    if reading.trouble:
        return GpuUse("unknown", reading.trouble)
    if look.engines:
        return leased(look, holders)
    if any(holder.cls == "ours" for holder in holders):
        return GpuUse("leased", f"{those(holders)} is starting or ending")
    if reading.processes is None or reading.memory_used_bytes is None:
        return GpuUse("unknown", "the driver does not say what runs there")
    if holders:
        return held(look, holders)
    if reading.memory_used_bytes > FREE_BYTES:
        why = f"{gib(reading.memory_used_bytes)} are in use and the driver names no process: see `rwkvctl zombies`"
        return GpuUse("unknown", why)
    if look.idle_s is not None and look.idle_s < SETTLE_S:
        return GpuUse("busy", "it was computing a moment ago")
    return GpuUse("free", "")


def significant(look: GpuObservation) -> tuple[Holder, ...]:
    """The holders that count. A process that NVML lists and nobody could look at is somebody's; a system service that
    holds next to nothing (a display, a monitor) leaves the GPU free."""
    known = {holder.pid for holder in look.holders}
    unseen = [
        Holder(pid=process.pid, cls="foreign", bytes=process.bytes)
        for process in look.reading.processes or ()
        if process.pid not in known
    ]
    holders = (*look.holders, *unseen)
    small = (look.reading.memory_used_bytes or 0) <= FREE_BYTES
    return tuple(holder for holder in holders if not (small and holder.cls == "protected"))


def leased(look: GpuObservation, holders: tuple[Holder, ...]) -> GpuUse:
    """An engine of ours is there, alone or not."""
    others = [holder for holder in holders if holder.cls in FOREIGN]
    if others:
        shared = f"{those(others)} came to the GPU that {' and '.join(look.engines)} computes on: timings mean nothing"
        return GpuUse("leased", shared, contended=True)
    return GpuUse("leased", "")


def held(look: GpuObservation, holders: tuple[Holder, ...]) -> GpuUse:
    """Somebody else's processes are there: dead ones, or live ones that compute or wait."""
    if all(holder.cls in DEAD for holder in holders):
        return GpuUse("zombie", f"{those(holders)}: see `rwkvctl zombies`")
    live = [holder for holder in holders if holder.cls not in DEAD]
    stuck = [holder for holder in live if holder.cls == "stuck"]
    if stuck:
        return GpuUse("busy", f"{those(stuck)} hangs in the driver and cannot be ended")
    if look.idle_s is None or look.idle_s < look.window_s:
        return GpuUse("busy", those(live))
    said = f"; its probe says: {look.probe}" if look.probe else ""
    return GpuUse("waiting", f"{those(live)} has computed nothing for {minutes(look.idle_s)}{said}")


def those(holders: Iterable[Holder]) -> str:
    """Return the holders in words, such as `python train.py (alice, pid 4410) and 7 more`."""
    first, *more = sorted(holders, key=lambda holder: -(holder.bytes or 0))
    command = first.command or "a process"
    if len(command) > LONGEST_COMMAND:
        command = f"{command[: LONGEST_COMMAND - 1]}…"
    facts = ", ".join(filter(None, [first.user, first.container, f"pid {first.pid}"]))
    return f"{command} ({facts})" + (f" and {len(more)} more" if more else "")


def gib(size: int) -> str:
    """Return a size in bytes as text in GiB, such as `20.0 GiB`."""
    return f"{size / 2**30:.1f} GiB"


def minutes(seconds: float) -> str:
    """Return a duration in words, such as `90 s`, `12 min` or `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def idle_since(before: float | None, utilisation: float | None, at: float, *, newcomer: bool) -> float | None:
    """Since when no look has shown use by those who are there; null while that is not measured. A process that has just
    come has not waited yet. Of what was before the first look nothing is known, so a GPU may be free from then on."""
    if utilisation is None:
        return None
    if utilisation > 0 or newcomer:
        return at
    return at - SETTLE_S if before is None else before
