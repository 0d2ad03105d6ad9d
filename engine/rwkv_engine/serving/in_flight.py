"""HTTP requests in flight: their tasks, and results on the way from the engine's thread to their connections."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rwkv_engine.scheduling.engine_loop import Cancel, Engine
from rwkv_engine.scheduling.tasks import AnyTask, GenerateTask, Result, Sink


@dataclass(eq=False, slots=True)
class Bell:
    """Wakes one coroutine from the engine's thread. Rings that come before it looks are one: nothing piles up."""

    loop: asyncio.AbstractEventLoop
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _rung: bool = False

    def ring(self) -> None:
        """Wake the coroutine; it sees whatever was done before this once its `wait` returns."""
        if not self._rung:
            self._rung = True
            self.loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()
        self._rung = False


@dataclass(eq=False, slots=True)
class Flight:
    """One request: `expected` results are still to come; `left` once its client is gone or has all."""

    bell: Bell
    tasks: list[AnyTask] = field(default_factory=list)
    expected: int = 0
    left: bool = False
    _results: deque[Result] = field(default_factory=deque)

    def sink(self, result: Result) -> None:
        """Take a result from the engine's thread and wake the request's coroutine."""
        self._results.append(result)
        self.bell.ring()

    @property
    def open(self) -> bool:
        """Whether there is still something to wait for."""
        return self.expected > 0 and not self.left

    def taken(self) -> list[Result]:
        """Return the results that have arrived and not been taken, without waiting."""
        results: list[Result] = []
        while self._results:
            results.append(self._results.popleft())
        self.expected -= len(results)
        return results

    async def results(self) -> list[Result]:
        """Wait for results and return them; an empty list once there is nothing to wait for."""
        while self.open:
            if found := self.taken():
                return found
            await self.bell.wait()
        return []


@dataclass(slots=True)
class Flights:
    """All requests in flight at one engine."""

    engine: Engine
    _open: set[Flight] = field(default_factory=set)

    def launch(self, gone: asyncio.Event, compile_all: Callable[[Sink, Bell], list[AnyTask]]) -> Flight:
        """Submit a request's tasks, all or none; they are cancelled when `gone` is set. Raises ItemError,
        QueueFullError."""
        flight = Flight(Bell(asyncio.get_running_loop()))
        flight.tasks = compile_all(flight.sink, flight.bell)
        flight.expected = sum(map(answers_of, flight.tasks))
        self.engine.submit(flight.tasks)
        self._open.add(flight)
        asyncio.ensure_future(gone.wait()).add_done_callback(lambda _: self._leave(flight))
        return flight

    def find(self, item_id: str) -> list[AnyTask]:
        """Return the tasks of an id that have not ended."""
        return [task for flight in self._open for task in flight.tasks if task.id == item_id and not task.ended]

    def of_group(self, group: str) -> list[AnyTask]:
        """Return the tasks of a group that have not ended."""
        return [task for flight in self._open for task in flight.tasks if task.group == group and not task.ended]

    def cancel(self, tasks: Sequence[AnyTask], error: str = "") -> None:
        """Cancel tasks, with `error` as the answer to what is open; an empty one sends none."""
        ours = set(map(id, tasks))
        self.engine.cancel(Cancel(lambda task: id(task) in ours, error))

    def _leave(self, flight: Flight) -> None:
        """The request has ended, well or not: cancel what is left of it."""
        self._open.discard(flight)
        flight.left = True
        if flight.expected > 0:
            self.cancel(flight.tasks)
        flight.bell.ring()


def answers_of(task: AnyTask) -> int:
    """Return how many results a task gives: one for each sample, or one for a score."""
    return len(task.keys) if isinstance(task, GenerateTask) else 1
