"""Who uses a GPU: derived from one reading, the classes of the processes that hold it, our leases, and how long it has
been idle. Pure.

Memory alone says little: a training run between two evaluations holds all of it and computes nothing. Nor does
utilisation: an idle warm engine of ours shows none. So both are used, and the processes as well.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from rwkv_daemon.rules.gpu_facts import GpuReading, Holder, Use

FREE_BYTES: Final = 512 * 1024 * 1024
"""Memory that the driver itself may use on a free GPU."""
SETTLE_S: Final = 3.0
"""A GPU without processes is free after so long without utilisation: three samples."""
DEAD: Final = frozenset({"orphan", "defunct", "ghost"})
FOREIGN: Final = frozenset({"container", "other-user", "foreign"})
LONGEST_COMMAND: Final = 60


class GpuObservation(NamedTuple):
    """What is known of one GPU at one moment. `engines` are ours that hold a lease on it; `idle_s` is None if use is
    not measured; after `window_s` without use, live work counts as waiting. `probe` is the last answer of a
    reservation's probe."""

    reading: GpuReading
    holders: tuple[Holder, ...] = ()
    engines: tuple[str, ...] = ()
    idle_s: float | None = None
    window_s: float = 60.0
    probe: str = ""


class GpuUse(NamedTuple):
    """The use of a GPU, and why, in a sentence. `contended`: another user computes where an engine of ours does."""

    use: Use
    why: str
    contended: bool = False


def use_of(look: GpuObservation) -> GpuUse:
    """Return the use of a GPU. The first matching rule wins; a GPU of which something is unknown is never free."""
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
    """Return the holders that count. A process that NVML lists and whose details are unknown counts; a system service
    that holds next to nothing (a display, a monitor) does not."""
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
    """Return the use of a GPU on which an engine of ours runs, alone or not."""
    others = [holder for holder in holders if holder.cls in FOREIGN]
    if others:
        shared = f"{those(others)} came to the GPU that {' and '.join(look.engines)} computes on: timings are not valid"
        return GpuUse("leased", shared, contended=True)
    return GpuUse("leased", "")


def held(look: GpuObservation, holders: tuple[Holder, ...]) -> GpuUse:
    """Return the use of a GPU with processes of others: dead ones, or live ones that compute or wait."""
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
    """Return since when no sample has shown utilisation by the present processes; None if utilisation is not measured.
    A new process starts a new count. Before the first sample nothing is known, so a GPU may be free from then on."""
    if utilisation is None:
        return None
    if utilisation > 0 or newcomer:
        return at
    return at - SETTLE_S if before is None else before
