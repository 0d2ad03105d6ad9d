"""A node's pool of processor slots, shared by its processes: one file a slot, held by `flock` for as long as work runs.

A process that dies gives its slots back, because the kernel does. Each process (a job's) writes down that it waits, how
many slots it holds, and since when: a free slot goes to the one that holds fewest, of several to the one that has
waited longest. So no job keeps the pool from another, however long its programs run. Such a note is only an order of
precedence: who does not renew it, dead or stopped, is passed over.
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

_NAP_S = 0.01
_FRESH_S = 2.0
_FORGOTTEN_S = 60.0


class Claim(NamedTuple):
    """What a process that waits has written down. The smaller one has precedence. Times are the monotonic clock's."""

    held: int
    since: float


class Slots:
    """The pool as one process sees it. Without a folder or a count there is no limit. Usable from any thread."""

    def __init__(self, folder: Path | None = None, count: int = 0) -> None:
        self.folder = folder if count > 0 else None
        self.count = count
        self._turn = threading.Lock()  # one thread waits at the pool, the others behind it
        self._changed = threading.Lock()
        self._held = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[Callable[[], None]]:
        """Hold a slot; waits for one. What it gives hands the slot back before its time, and may be called twice."""
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
        """The file of a slot that is now ours."""
        folder.mkdir(parents=True, exist_ok=True)
        since = time.monotonic()
        note = folder / f"waits-{os.getpid()}-{id(self):x}"
        try:
            while True:
                claim = Claim(self._held, since)
                _write(note, claim)
                if all(claim <= other for other in _others(folder, note)) and (taken := self._take(folder)) >= 0:
                    return taken
                time.sleep(_NAP_S)
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


_pools: dict[tuple[Path | None, int], Slots] = {}
_opening = threading.Lock()


def pool(folder: Path | None, count: int) -> Slots:
    """The pool in a folder: one for all threads of this process, so that it counts as one."""
    with _opening:
        return _pools.setdefault((folder, count), Slots(folder, count))


def _write(note: Path, claim: Claim) -> None:
    """Replaced whole: a note that is read half written would lose its turn."""
    new = note.with_name(f".{note.name}")
    new.write_text(f"{claim.held} {claim.since} {time.monotonic()}\n", encoding="ascii")
    new.replace(note)


def _others(folder: Path, mine: Path) -> Iterator[Claim]:
    """What other processes have written down, as far as they still renew it."""
    for note in folder.glob("waits-*"):
        if note == mine:
            continue
        with contextlib.suppress(OSError, ValueError):  # it has just got its slot
            held, since, renewed = note.read_text(encoding="ascii").split()
            age = time.monotonic() - float(renewed)
            if 0 <= age <= _FRESH_S:
                yield Claim(int(held), float(since))
            elif not 0 <= age <= _FORGOTTEN_S:  # its process is gone, or was so before the machine started
                note.unlink(missing_ok=True)
