"""A node's pool of processor slots, shared by its processes: one file a slot, held by `flock` for as long as work runs.

A process that dies gives its slot back, because the kernel does.
"""

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

_NAP_S = 0.01


@contextlib.contextmanager
def slot(folder: Path | None, count: int) -> Iterator[int]:
    """Hold one of so many slots; waits for a free one. Its number; without a folder or a count there is no limit."""
    if folder is None or count < 1:
        yield 0
        return
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for number in random.sample(range(count), count):
            with contextlib.ExitStack() as held:
                if _take(folder / f"slot-{number}", held):
                    yield number
                    return
        time.sleep(_NAP_S)


def _take(path: Path, held: contextlib.ExitStack) -> bool:
    """Whether the slot was free; the stack then holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    held.callback(os.close, descriptor)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
