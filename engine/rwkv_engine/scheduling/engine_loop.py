"""The engine's thread: take in tasks, plan, launch and apply steps, for as long as the process lives."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rwkv_engine.errors import OutOfMemory, QueueFullError
from rwkv_engine.scheduling.scheduler import NO_MEMORY, Scheduler, SlotInput, SlotOutput
from rwkv_engine.scheduling.sequence import Task
from rwkv_engine.serving.gauges import Liveness, Rates

IDLE_BEAT_S = 1.0

Condition = Callable[[Task], bool]


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the tasks that fulfil the condition, with `error` as their answer; an empty one sends none."""

    condition: Condition
    error: str = ""


class StepOutcome(Protocol):
    """A launched step, whose outputs can be collected."""

    def collect(self) -> list[SlotOutput]:
        """Return one output for each input, in order; waits for the device."""


class StepRunner(Protocol):
    """Runs the steps that the scheduler plans. `lag`: how many steps are launched before the first outcome is read."""

    lag: int

    def launch(self, inputs: Sequence[SlotInput]) -> StepOutcome:
        """Start a step. Raises OutOfMemory; the slots' states are then lost."""


class LaunchedStep(NamedTuple):
    """A step that was launched and whose outcome has not been read yet."""

    inputs: list[SlotInput]
    outcome: StepOutcome


@dataclass(slots=True)
class Engine:
    """Owned by its thread; `submit`, `cancel`, `stop` and the read-only figures may be used from any other.
    `after_step` is called on the engine's thread at the end of each step, also of one that launched nothing or ran out
    of memory: what was drawn is with its samples by then."""

    scheduler: Scheduler
    runner: StepRunner
    queue_limit: int
    liveness: Liveness
    rates: Rates = field(default_factory=Rates)
    steps: int = 0
    occupancy: float = 0.0
    shrunk: int = 0
    on_exit: Callable[[], None] = lambda: None
    after_step: Callable[[], None] = lambda: None
    _inbox: deque[Task | Cancel] = field(default_factory=deque)
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _incoming: int = 0
    _launched: deque[LaunchedStep] = field(default_factory=deque)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Number of items that have no slot yet."""
        return self.scheduler.waiting + self._incoming

    @property
    def busy(self) -> bool:
        """Whether tasks have arrived, steps are under way, or the scheduler has work."""
        return bool(self._incoming or self._launched) or not self.scheduler.idle

    @property
    def room(self) -> int:
        """How many more items clients should send: enough to keep every slot busy, and no more than the queue takes."""
        wanted = 4 * self.scheduler.limits.slots
        return max(0, min(wanted, self.queue_limit) - self.waiting)

    def start(self, on_exit: Callable[[], None]) -> None:
        """Start the thread; `on_exit` is called on it when it ends, for whatever reason."""
        self.on_exit = on_exit
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Queue all tasks or none. Raises QueueFullError."""
        with self._wake:
            if self.waiting + len(tasks) > self.queue_limit:
                raise QueueFullError(self.queue_limit)
            self._incoming += len(tasks)
            self._inbox.extend(tasks)
            self._wake.notify()

    def cancel(self, cancel: Cancel) -> None:
        """Have the engine's thread end the tasks that fulfil the condition before its next step."""
        with self._wake:
            self._inbox.append(cancel)
            self._wake.notify()

    def stop(self) -> None:
        """End the thread after the present step and wait for it."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_in():
                self.step()
        finally:
            self.on_exit()

    def _take_in(self) -> bool:
        """Move what arrived to the scheduler, waiting for something to do. Returns False when the engine is to stop."""
        with self._wake:
            while not self._stopping and not self._inbox and self.scheduler.idle:
                self.liveness.beat()
                self.scheduler.kept.expire(self.scheduler.clock())
                self._wake.wait(IDLE_BEAT_S)
            arrived, self._incoming = list(self._inbox), 0
            self._inbox.clear()
        for message in arrived:
            if isinstance(message, Cancel):
                self._cancel(message)
            else:
                self.scheduler.submit(message)
        return not self._stopping

    def _cancel(self, cancel: Cancel) -> None:
        for task in self.scheduler.cancel(cancel.condition):
            for result in task.failure(cancel.error) if cancel.error else ():
                task.sink(result)

    def step(self) -> None:
        """Schedule and launch a step, then apply the outcomes that are more than `runner.lag` steps old, and all of
        them once no sequence is left: otherwise a step that was launched past the last one's end would stay, and the
        engine would count as busy for ever."""
        inputs = self.scheduler.plan()
        if inputs:
            self._launch(inputs)
        while len(self._launched) > (self.runner.lag if inputs and not self.scheduler.idle else 0):
            self._apply_oldest()
        self.after_step()
        self.liveness.beat()
        counters = self.scheduler.counters
        self.rates.note(time.monotonic(), counters.prefill_tokens, counters.decode_tokens)

    def _launch(self, inputs: list[SlotInput]) -> None:
        try:
            outcome = self.runner.launch(inputs)
        except OutOfMemory:
            self._shrink(inputs)
            return
        self._launched.append(LaunchedStep(inputs, outcome))
        self.scheduler.launched(inputs)
        self.steps += 1
        self.occupancy = len(inputs) / self.scheduler.limits.slots

    def _apply_oldest(self) -> None:
        step = self._launched.popleft()
        self.scheduler.apply(step.inputs, step.outcome.collect())

    def _shrink(self, inputs: Sequence[SlotInput]) -> None:
        """Reduce memory use after a step that did not fit, and begin its sequences anew. Tasks that cannot run with
        less are answered with an error."""
        self.scheduler.states_lost = True
        while self._launched:
            self._apply_oldest()
        self.shrunk += 1
        if not self.scheduler.shrink():
            tasks = {id(entry.sequence.task) for entry in inputs}
            self._cancel(Cancel(lambda task: id(task) in tasks, NO_MEMORY))
