"""Room on the home's file system: below the floor nothing starts and what runs makes place, before a write fails.

The deciding part is pure. A ballast file, if one is configured, is given up when the disk is all but full, so that what
must be written (how jobs ended) can be.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENOUGH: Final = 1.25
"""Times the floor that must be free before jobs go on: room that comes and goes shall not start and stop them."""
ALL_BUT_FULL: Final = 0.25
"""Times the floor below which the ballast is given up."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is to be done at this much free space."""

    low: bool
    give_ballast: bool
    take_ballast: bool


def judge(free_bytes: int, floor_bytes: int, ballast_bytes: int, *, was_low: bool) -> Room:
    """Whether there is too little room, and what becomes of the ballast."""
    low = free_bytes < floor_bytes * (ENOUGH if was_low else 1)
    return Room(
        low=low,
        give_ballast=free_bytes < floor_bytes * ALL_BUT_FULL,
        take_ballast=bool(ballast_bytes) and free_bytes > floor_bytes * ENOUGH + 2 * ballast_bytes,
    )


def sentence(floor_bytes: int, home: Path) -> str:
    """What the operator reads beside each job that waits. No figure that changes: it is stored with every one."""
    return f"less than {floor_bytes / 2**20:.0f} MiB are free under {home}; jobs go on by themselves when there is room"


def take_ballast(path: Path, size: int) -> None:
    """Reserve the ballast, if it is not there. No room for it is no error."""
    with contextlib.suppress(OSError):
        if path.exists() and path.stat().st_size == size:
            return
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def give_ballast(path: Path) -> bool:
    """Give the ballast back to the file system; whether there was one."""
    if not path.exists():
        return False
    path.unlink(missing_ok=True)
    return True


def free(path: Path) -> int:
    """Bytes that may be written under a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
