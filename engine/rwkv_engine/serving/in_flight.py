"""HTTP requests in flight: their tasks, and the results that the engine's thread hands to their connections."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rwkv_engine.scheduling.engine_loop import Cancel, Engine
from rwkv_engine.scheduling.tasks import AnyTask, GenerateTask, Result, Sink
from rwkv_engine.serving.wakeups import StreamWakeups, Wakeup


@dataclass(eq=False, slots=True)
class RequestInFlight:
    """One request: `expected` results are still to come. `left` is set once its client has gone or has all of them."""

    wakeup: Wakeup
    tasks: list[AnyTask] = field(default_factory=list)
    expected: int = 0
    left: bool = False
    _results: deque[Result] = field(default_factory=deque)

    def sink(self, result: Result) -> None:
        """Take a result from the engine's thread and wake the request's coroutine."""
        self._results.append(result)
        self.wakeup.wake()

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
            await self.wakeup.wait()
        return []


@dataclass(slots=True)
class RequestsInFlight:
    """All requests in flight at one engine, which calls these after each step and no others."""

    engine: Engine
    streams: StreamWakeups = field(default_factory=StreamWakeups)
    _open: set[RequestInFlight] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.engine.after_step = self.streams.wake

    def launch(self, gone: asyncio.Event, compile_all: Callable[[Sink, Wakeup], list[AnyTask]]) -> RequestInFlight:
        """Submit a request's tasks, all or none; they are cancelled when `gone` is set. Raises ItemError,
        QueueFullError."""
        in_flight = RequestInFlight(Wakeup(asyncio.get_running_loop()))
        in_flight.tasks = compile_all(in_flight.sink, in_flight.wakeup)
        in_flight.expected = in_flight.wakeup.texts = sum(map(answers_of, in_flight.tasks))
        self.engine.submit(in_flight.tasks)
        self._open.add(in_flight)
        asyncio.ensure_future(gone.wait()).add_done_callback(lambda _: self._leave(in_flight))
        return in_flight

    def find(self, item_id: str) -> list[AnyTask]:
        """Return the tasks of an id that have not ended."""
        return [task for in_flight in self._open for task in in_flight.tasks if task.id == item_id and not task.ended]

    def of_group(self, group: str) -> list[AnyTask]:
        """Return the tasks of a group that have not ended."""
        return [task for in_flight in self._open for task in in_flight.tasks if task.group == group and not task.ended]

    def cancel(self, tasks: Sequence[AnyTask], error: str = "") -> None:
        """Cancel tasks, with `error` as the answer to everything unanswered; an empty `error` sends none."""
        ours = set(map(id, tasks))
        self.engine.cancel(Cancel(lambda task: id(task) in ours, error))

    def _leave(self, in_flight: RequestInFlight) -> None:
        """Forget a request that has ended, and cancel its tasks that have not."""
        self._open.discard(in_flight)
        in_flight.left = True
        if in_flight.expected > 0:
            self.cancel(in_flight.tasks)
        in_flight.wakeup.wake()


def answers_of(task: AnyTask) -> int:
    """Return how many results a task gives: one for each sample, or one for a score."""
    return len(task.keys) if isinstance(task, GenerateTask) else 1
