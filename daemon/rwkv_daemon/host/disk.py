"""Free space on the home's file system: below the floor nothing starts and running jobs are paused, before a write
fails.

The decision is pure. A ballast file, if one is configured, is removed when the disk is all but full, so that what must
be written (how jobs ended) can be.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENOUGH: Final = 1.25
"""Multiple of the floor that must be free before jobs go on, so that small changes do not start and stop them."""
ALL_BUT_FULL: Final = 0.25
"""Multiple of the floor below which the ballast is removed."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is to be done at this much free space."""

    low: bool
    give_ballast: bool
    take_ballast: bool


def judge(free_bytes: int, floor_bytes: int, ballast_bytes: int, *, was_low: bool) -> Room:
    """Return whether there is too little room, and what is to become of the ballast."""
    low = free_bytes < floor_bytes * (ENOUGH if was_low else 1)
    return Room(
        low=low,
        give_ballast=free_bytes < floor_bytes * ALL_BUT_FULL,
        take_ballast=bool(ballast_bytes) and free_bytes > floor_bytes * ENOUGH + 2 * ballast_bytes,
    )


def sentence(floor_bytes: int, home: Path) -> str:
    """Return the reason that the operator reads beside each waiting job. It holds no figure that changes, as it is
    stored with every job."""
    return f"less than {floor_bytes / 2**20:.0f} MiB are free under {home}; jobs go on by themselves when there is room"


def take_ballast(path: Path, size: int) -> None:
    """Create the ballast file, if it does not exist; no error if there is no room for it."""
    with contextlib.suppress(OSError):
        if path.exists() and path.stat().st_size == size:
            return
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def give_ballast(path: Path) -> bool:
    """Remove the ballast file; returns whether there was one."""
    if not path.exists():
        return False
    path.unlink(missing_ok=True)
    return True


def free(path: Path) -> int:
    """Return the bytes that may be written under a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
