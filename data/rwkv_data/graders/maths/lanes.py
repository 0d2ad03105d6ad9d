"""Assign answers to maths workers, so that a comparison that never ends holds up no other.

The threads of a job share two kinds of lanes, each with one worker process. Every comparison begins in a quick lane,
where it has a second: nearly all need far less. A comparison that takes longer, or crashes its worker, goes to a
slow lane, in a fresh worker with twice the limit and a lower priority, and frees the quick lane. So slow answers wait
only for each other, in threads of their own (`WORKERS` is larger than the number of lanes), and there are never more
worker processes than lanes. All comparisons of one answer together have a limit, too.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from rwkv_data.graders.maths.maths_worker import CPU_S, MathsWorker, Overrun, WorkerGone, tried_twice

QUICK, SLOW = 6, 2
WORKERS = 24
QUICK_S = 1.0
NICENESS = 10
PATIENCE_S = 0.2
ALL = 6.0
"""Limit of all comparisons of an answer, as a multiple of the limit of one: two slow ones and their reference fit."""


class Lanes:
    """The worker processes of a job; each is started when it is first needed. Usable from any thread."""

    def __init__(
        self, *, cpu_s: float = CPU_S, quick: int = QUICK, slow: int = SLOW, argv: tuple[str, ...] | None = None
    ) -> None:
        self.cpu_s = cpu_s
        self._quick = LaneGroup([MathsWorker(cpu_s=cpu_s, argv=argv) for _ in range(quick)])
        self._slow = LaneGroup([MathsWorker(cpu_s=cpu_s, argv=argv, niceness=NICENESS) for _ in range(slow)])

    @property
    def workers(self) -> list[MathsWorker]:
        return [*self._quick.workers, *self._slow.workers]

    def close(self) -> None:
        """End the worker processes of all quick and slow lanes."""
        for worker in self.workers:
            worker.close()

    def quick(self) -> contextlib.AbstractContextManager[MathsWorker]:
        """Lend a worker of a quick lane for a `with` block, waiting until one is free."""
        return self._quick.lend()

    def slow(self) -> contextlib.AbstractContextManager[MathsWorker]:
        """Lend a worker of a slow lane (lower priority) for a `with` block, waiting until one is free."""
        return self._slow.lend()


class LaneGroup:
    """Lanes of one kind. A worker costs a second of processor time and 100 MiB to start, and makes hundreds of
    usual comparisons a second: another is started only where those there are stay busy for `PATIENCE_S`, one at a
    time."""

    def __init__(self, workers: list[MathsWorker]) -> None:
        self.workers = workers
        self._unused = workers[::-1]
        self._free: list[MathsWorker] = []
        self._starting: MathsWorker | None = None
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def lend(self) -> Iterator[MathsWorker]:
        worker = self._next()
        try:
            if worker is self._starting:
                try:
                    worker.start()
                finally:
                    self._starting = None
            yield worker
        finally:
            with self._changed:
                self._free.append(worker)  # last used, first lent
                self._changed.notify()

    def _next(self) -> MathsWorker:
        with self._changed:
            patient = len(self._unused) < len(self.workers)
            while not self._free:
                told = patient and self._changed.wait(PATIENCE_S if self._unused else None)
                if not (told or self._free or self._starting) and self._unused:
                    self._starting = self._unused.pop()
                    return self._starting
            return self._free.pop()


class AnswerClient:
    """The comparisons of one answer, with a common time limit; it asks as a Process does, on behalf of one thread."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._left_s = ALL * lanes.cpu_s

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the reply of a slow lane to one task. Raises WorkerGone or Overrun."""
        limit_s = self._within(self._lanes.cpu_s)
        with self._lanes.slow() as process:
            return self._paid(process.ask(do, cpu_s=limit_s, **arguments))

    def ask_twice(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the reply of a quick lane, or else of a slow one. Raises Overrun or WorkerGone."""
        quick_s = self._within(min(QUICK_S, self._lanes.cpu_s))
        slow_s = self._within(2 * self._lanes.cpu_s)
        try:
            reply = tried_twice((self._lanes.quick(), quick_s), (self._lanes.slow(), slow_s), do, arguments)
        except (Overrun, WorkerGone):
            self._left_s -= quick_s + slow_s
            raise
        return self._paid(reply)

    def _within(self, limit_s: float) -> float:
        if self._left_s <= 0:
            raise Overrun("its comparisons together took more processor time than those of an answer may")
        return min(limit_s, self._left_s)

    def _paid(self, reply: dict[str, Any]) -> dict[str, Any]:
        self._left_s -= float(reply.pop("took_s", 0.0))
        return reply


_shared: dict[float, tuple[Lanes, int]] = {}
_opening = threading.Lock()


@contextlib.contextmanager
def lanes(cpu_s: float) -> Iterator[Lanes]:
    """Yield the lanes of this process for a limit: one set for all users, closed with the last of them."""
    with _opening:
        mine, users = _shared.get(cpu_s) or (Lanes(cpu_s=cpu_s), 0)
        _shared[cpu_s] = (mine, users + 1)
    try:
        yield mine
    finally:
        with _opening:
            mine, users = _shared.pop(cpu_s)
            if users > 1:
                _shared[cpu_s] = (mine, users - 1)
        if users == 1:
            mine.close()
