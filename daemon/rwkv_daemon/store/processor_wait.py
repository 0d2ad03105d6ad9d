"""How long this process has waited for a processor: a store that seems slow on a busy machine need not be."""

import contextlib
from pathlib import Path
from typing import Final

_NANOSECOND: Final = 1e-9


def waited_s() -> float:
    """Return how long the threads of this process have been ready to run and were not, in seconds; 0 where the kernel
    keeps no such account (/proc/PID/task/TID/schedstat)."""
    total = 0
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has just ended
            total += int((thread / "schedstat").read_bytes().split()[1])
    return total * _NANOSECOND
