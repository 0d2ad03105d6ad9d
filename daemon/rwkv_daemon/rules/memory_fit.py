"""How much memory an engine needs, and which lease it fits. Pure arithmetic.

A GPU is divided into eighths. If GPUs are not shared, an engine holds all eight; else as many as its share, or its
need, comes to. The parts in use never exceed the card, whichever daemons of the machine share it, as all of them divide
a card in the same way and hold the lock of each part.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rwkvctl.protocol.numerics import PROFILES

SLOTS: Final = 8
GIB: Final = 1 << 30
RUNTIME_BYTES: Final = GIB
"""What a CUDA process takes before it holds a model: context, kernels, graphs (as `rwkv_engine.gpu.memory_plan`
counts)."""
MARGIN: Final = 1.1
USABLE: Final = 0.95
"""The fraction of its part of a GPU that an engine may fill: the driver keeps some of the card for itself."""


@dataclass(frozen=True, slots=True)
class FreeLease:
    """A lease with room: `slots` are its free parts, `serves` what runs on the others. `bytes` 0: unknown; `numerics`:
    the only profile it may be used for, if not all."""

    id: str
    device: str = ""
    bytes: int = 0
    slots: tuple[int, ...] = tuple(range(SLOTS))
    serves: tuple[object, ...] = ()
    numerics: str = ""


def least_bytes(file_bytes: int, numerics: str, learned_bytes: int = 0) -> int:
    """Return the least memory that an engine of a checkpoint file needs; 0 if the file is not known.

    The file may hold its numbers in 16 or 32 bits, and is a little larger than its numbers, so this is a lower bound:
    what it forbids cannot run, and what it allows the engine checks again before it reads the weights.
    """
    if not file_bytes:
        return learned_bytes
    half = numerics in PROFILES and PROFILES[numerics].half_weights
    weights = file_bytes // 2 if half else file_bytes
    return max(weights + RUNTIME_BYTES, learned_bytes)


def slots_needed(need_bytes: int, lease_bytes: int, share: int) -> int | None:
    """Return how many parts of a lease an engine takes; None if it does not fit."""
    if need_bytes and lease_bytes and need_bytes > lease_bytes:
        return None
    if share <= 1 or not lease_bytes:
        return SLOTS
    needed = math.ceil(need_bytes * MARGIN * SLOTS / lease_bytes)
    return min(max(needed, SLOTS // min(share, SLOTS)), SLOTS)


def best_lease(
    free: Iterable[FreeLease], need_bytes: int, share: int, *, not_beside: object = None
) -> tuple[FreeLease, tuple[int, ...]] | None:
    """Return the lease for an engine, and its parts: the emptiest; then the smallest that is large enough, so that
    large GPUs stay for large models; then the first. `not_beside`: not where that is served already."""
    found: list[tuple[int, int, int, FreeLease, int]] = []
    for place, lease in enumerate(free):
        count = slots_needed(need_bytes, lease.bytes, share)
        full = len(lease.serves) >= max(share, 1)
        if count is None or count > len(lease.slots) or full or (not_beside is not None and not_beside in lease.serves):
            continue
        found.append((-len(lease.slots), lease.bytes, place, lease, count))
    if not found:
        return None
    *_, lease, count = min(found, key=lambda one: one[:3])
    return lease, lease.slots[:count]


def taken(lease: FreeLease, slots: tuple[int, ...], serves: object) -> FreeLease | None:
    """Return what is left of a lease; None if nothing is."""
    left = tuple(slot for slot in lease.slots if slot not in slots)
    return replace(lease, slots=left, serves=(*lease.serves, serves)) if left else None


def fits_anywhere(need_bytes: int, numerics: str, leases: Mapping[str, int], only: Mapping[str, str]) -> str:
    """Return why no lease of the node that may be used for a profile is large enough; empty if one is. `only`: the only
    profile that a lease may be used for, for leases that have one."""
    sizes = [size for lease, size in leases.items() if only.get(lease, numerics) == numerics]
    largest = max(sizes, default=0)
    if not need_bytes or not largest or any(not size or need_bytes <= size for size in sizes):
        return ""
    return f"needs at least {need_bytes / GIB:.1f} GiB, and the largest GPU here has {largest / GIB:.1f} GiB"


def memory_bytes(lease_bytes: int, slots: int) -> int:
    """Return how many bytes an engine is told it may fill; 0 if it has the whole lease and finds out itself."""
    return 0 if slots >= SLOTS or not lease_bytes else int(lease_bytes * slots / SLOTS * USABLE)


def next_smaller(slots: int) -> int:
    """Return the number of sequences for an engine after one with `slots` (0: its own choice) ran out of memory while
    loading; 0 after the smallest."""
    return next((fewer for fewer in (64, 16, 4, 1) if not slots or fewer < slots), 0)
