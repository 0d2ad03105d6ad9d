"""A node's pool of processor slots, shared by its processes: one file a slot, held by `flock` for as long as work runs.

The kernel releases the slots of a process that dies. Each process (a job's) writes a note that it waits, how many slots
it holds, and since when: a free slot goes to the process that holds fewest, of several to the one that has waited
longest. So no job keeps the pool from another, however long its programs run. A note is only a claim: one that is not
renewed, because its process is dead or stopped, is ignored.
"""

import contextlib
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_RETRY_S = 0.01
_FRESH_S = 2.0
_FORGOTTEN_S = 60.0


class SlotClaim(NamedTuple):
    """The claim of a waiting process. The smaller claim has precedence. Times are the monotonic clock's."""

    held: int
    since: float


class ProcessorSlots:
    """The pool as one process sees it. Without a folder or a count there is no limit. Usable from any thread."""

    def __init__(self, folder: Path | None = None, count: int = 0) -> None:
        self.folder = folder if count > 0 else None
        self.count = count
        self._turn = threading.Lock()  # one thread waits for the pool, the others for this lock
        self._changed = threading.Lock()
        self._held = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[Callable[[], None]]:
        """Wait for a slot and hold it. Yields a function that releases the slot early and may be called twice."""
        if self.folder is None:
            yield lambda: None
            return
        with self._turn:
            descriptor = self._wait(self.folder)
        with contextlib.ExitStack() as held:
            held.callback(self._back, descriptor)
            yield held.close

    def _back(self, descriptor: int) -> None:
        os.close(descriptor)
        with self._changed:
            self._held -= 1

    def _wait(self, folder: Path) -> int:
        """Wait for a slot and return its locked file."""
        folder.mkdir(parents=True, exist_ok=True)
        since = time.monotonic()
        note = folder / f"waits-{os.getpid()}-{id(self):x}"
        try:
            while True:
                claim = SlotClaim(self._held, since)
                _write(note, claim)
                if all(claim <= other for other in _others(folder, note)) and (taken := self._take(folder)) >= 0:
                    return taken
                time.sleep(_RETRY_S)
        finally:
            note.unlink(missing_ok=True)

    def _take(self, folder: Path) -> int:
        for number in random.sample(range(self.count), self.count):
            descriptor = os.open(folder / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            with self._changed:
                self._held += 1
            return descriptor
        return -1


_pools: dict[tuple[Path | None, int], ProcessorSlots] = {}
_opening = threading.Lock()


def pool(folder: Path | None, count: int) -> ProcessorSlots:
    """Return the pool in a folder: one for all threads of this process, so that they make one claim."""
    with _opening:
        return _pools.setdefault((folder, count), ProcessorSlots(folder, count))


def _write(note: Path, claim: SlotClaim) -> None:
    """Write a claim, replacing the file as a whole: a claim that is read half written would lose its turn."""
    new = note.with_name(f".{note.name}")
    new.write_text(f"{claim.held} {claim.since} {time.monotonic()}\n", encoding="ascii")
    new.replace(note)


def _others(folder: Path, mine: Path) -> Iterator[SlotClaim]:
    """Yield the claims of other processes that still renew them."""
    for note in folder.glob("waits-*"):
        if note == mine:
            continue
        with contextlib.suppress(OSError, ValueError):  # that process has just got its slot
            held, since, renewed = note.read_text(encoding="ascii").split()
            age = time.monotonic() - float(renewed)
            if 0 <= age <= _FRESH_S:
                yield SlotClaim(int(held), float(since))
            elif not 0 <= age <= _FORGOTTEN_S:  # its process is gone, or was so before the machine started
                note.unlink(missing_ok=True)
