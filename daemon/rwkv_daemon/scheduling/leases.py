"""Leases of this node: which take engines, which parts of them are free, and the locks that all users share.

A lease is taken twice: in the store, in the transaction that stores its engine, so that a slow start is not placed
twice; and by the engine's shim, which locks a file named after the GPU's UUID while it lives. The files are where every
user of the machine finds them, so two daemons, or two users, exclude each other, and a death frees the lease.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rwkv_daemon.rules.memory_fit import SLOTS, FreeLease
from rwkvctl.protocol.views import LeaseView

CPU: Final = "cpu:0"
CLOSING: Final = frozenset({"draining", "reserved", "quarantined"})
"""Conditions of a GPU in which its engine is to be unloaded as soon as possible."""
FOLDERS: Final = (Path("/run/lock/rwkvctl"), Path("/run/lock"), Path("/tmp"))  # noqa: S108 - shim.open_lock is careful
"""The first is made by the service's tmpfiles.d, for systems on which only root may write to the second."""


def is_gpu(lease: str) -> bool:
    """Whether a lease is a GPU (or an instance of a divided one) rather than the CPU."""
    return not lease.startswith("cpu")


def has_gpus(leases: Iterable[LeaseView]) -> bool:
    """Whether this node has a GPU, whatever its state is. Decides what numerics `auto` means."""
    return any(is_gpu(lease.id) for lease in leases)


def placeable(leases: Iterable[LeaseView], *, cpu_engines: bool) -> list[LeaseView]:
    """Return the leases on which engines may be placed: the GPUs; the CPU if there are none, or if it is enabled."""
    leases = list(leases)
    cpu_too = cpu_engines or not has_gpus(leases)
    return [lease for lease in leases if cpu_too or is_gpu(lease.id)]


def restricted(every: Iterable[LeaseView]) -> dict[str, str]:
    """Return the only profile that a lease may be used for, by lease, for those that have one: beside GPUs the CPU runs
    `fp32` alone."""
    every = list(every)
    return {lease.id: "fp32" for lease in every if has_gpus(every) and not is_gpu(lease.id)}


def free_leases(
    leases: Iterable[LeaseView], taken: Mapping[str, Mapping[int, object]], *, cpu_engines: bool, share: int
) -> list[FreeLease]:
    """Return the leases with room now. `taken`: for each lease which of its parts serve what, by the store.

    A GPU on which an engine of ours runs has room for another only if GPUs are shared and nobody else uses it.
    """
    every = placeable(leases, cpu_engines=cpu_engines)
    only, found = restricted(every), []
    for lease in every:
        held = taken.get(lease.id, {})
        shared = share > 1 and bool(held) and lease.use == "leased" and not lease.contended
        slots = tuple(slot for slot in range(SLOTS) if slot not in held)
        if lease.condition != "ok" or not slots or not (shared or (lease.use == "free" and not held)):
            continue
        device, size, serves = device_name(lease), lease.memory_total_bytes or 0, tuple(dict.fromkeys(held.values()))
        found.append(FreeLease(lease.id, device, size, slots, serves, only.get(lease.id, "")))
    return found


def device_name(lease: LeaseView) -> str:
    """Return the kind of device: the key under which rates and memory needs are stored."""
    return lease.name or lease.id


def label(leases: Iterable[LeaseView] | None, lease: str) -> str:
    """Return a lease as people call it: `GPU 3`, or its id."""
    index = next((view.index for view in leases or () if view.id == lease), "")
    return f"GPU {index}" if index else lease


def lock_folder(configured: str) -> Path:
    """Return the folder of the lock files. Every user of the machine must come to the same one: it is the first folder
    that all may write to and only root owns, whoever asks and whether or not this process may write there now."""
    if configured:
        return Path(configured)
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            found = folder.stat()
            if found.st_uid == 0 and found.st_mode & stat.S_ISVTX and found.st_mode & stat.S_IWOTH:
                return folder
    return FOLDERS[-1]


def lock_files(folder: Path, gpu: str, slots: tuple[int, ...]) -> tuple[tuple[Path, ...], Path | None]:
    """Return (files to lock exclusively, file to lock shared). The whole GPU is one file locked exclusively; a part
    locks that file shared, and a file of its own exclusively."""
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in gpu)
    whole = folder / f"rwkvctl-{name}.lock"
    if len(slots) >= SLOTS:
        return (whole,), None
    return tuple(folder / f"rwkvctl-{name}.{slot}.lock" for slot in slots), whole


def lock_holder(files: Iterable[Path]) -> int | None:
    """Return the pid that holds one of these files, if /proc/locks tells."""
    inodes = set()
    for path in files:
        with contextlib.suppress(OSError):
            found = path.lstat()
            inodes.add(f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}")
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").split("\n"):
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] in inodes and words[4].isdigit():
                return int(words[4])
    return None
