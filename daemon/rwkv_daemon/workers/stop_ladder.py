"""The stop ladder: the escalation by which a worker is ended, from a message to a kill that nothing escapes.

Each step has its time; what still runs after the last one is `stuck`, and is never called stopped. The step is stored
with the attempt, so that a restarted daemon continues from there and never starts again at the first step.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from rwkv_daemon.workers import cgroups, worker_process
from rwkv_daemon.workers.worker_process import Worker
from rwkvctl.settings.fields import Settings

KILL_S: Final = 1.0
"""Seconds between the kill of the process group and that of everything else; by then the rest is gone."""
LOOK_S: Final = 5.0
SHIM_S: Final = 5.0
"""A shim that outlives its worker for so long is itself stopped or stuck, and is killed as well."""

T = TypeVar("T")


class StopStep(IntEnum):
    """How far the escalation has gone."""

    NONE = 0
    BATCH = 1  # it was asked to finish its batch
    ASK = 2  # it was asked to stop
    TERM = 3  # SIGTERM to its group, through the shim
    KILL = 4  # SIGKILL to its group
    SWEEP = 5  # SIGKILL to its cgroup, or to whatever carries its marker
    STUCK = 6  # no step has ended it

    @property
    def words(self) -> str:
        """Return the step in words for the log."""
        return WORDS[self]


WORDS: Final = {
    StopStep.NONE: "runs",
    StopStep.BATCH: "is asked to finish its batch",
    StopStep.ASK: "is asked to stop",
    StopStep.TERM: "did not stop when asked: SIGTERM to its group",
    StopStep.KILL: "ignored SIGTERM: SIGKILL to its group",
    StopStep.SWEEP: "left processes behind: SIGKILL to everything that belongs to it",
    StopStep.STUCK: "cannot be ended, not even by SIGKILL",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that each step of the stop ladder has before the next."""

    batch_s: float
    ask_s: float
    term_s: float
    sweep_s: float

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.pause_grace_s, settings.stop_grace_s, settings.stop_term_s, settings.stop_kill_s)

    def on(self, step: StopStep) -> float:
        """Return the time of one step before the next."""
        waits = (0.0, self.batch_s, self.ask_s, self.term_s, KILL_S, self.sweep_s)
        return waits[step]


def after(step: StopStep, waited_s: float, patience: Patience) -> StopStep:
    """Return the step after so long on this one."""
    if step is StopStep.STUCK or waited_s < patience.on(step):
        return step
    return StopStep(step + 1)


@dataclass(slots=True)
class StopLadder:
    """The escalation for one worker. `since` is when the step began (monotonic); `again`: an earlier daemon left it, so
    the step is taken once more. `killed` are pids that were sent SIGKILL: a second one has no effect on a process that
    cannot die. `looking` is the last look at its processes."""

    step: StopStep = StopStep.NONE
    since: float = 0.0
    killed: set[int] = field(default_factory=set)
    again: bool = False
    looking: "asyncio.Future[Any] | None" = None

    @classmethod
    def resumed(cls, step: int) -> Self:
        """Continue where an earlier daemon stopped; that step is taken once more, as the daemon may have died before
        it."""
        return cls(StopStep(step), time.monotonic(), again=step > StopStep.NONE)

    def reach(self, first: StopStep, patience: Patience) -> bool:
        """Go as far as the time allows, at least to `first`; returns whether a step was entered now."""
        clock, before = time.monotonic(), self.step
        self.step = max(first, after(self.step, clock - self.since, patience) if self.step else first)
        entered = self.step != before or self.again
        if entered:
            self.since, self.again = clock, False
        return entered


async def climb(ladder: StopLadder, worker: Worker, first: StopStep, patience: Patience) -> bool:
    """Take the steps that are due; returns whether a step was entered, which the caller stores. The caller sends the
    messages of the first two steps."""
    entered = ladder.reach(first, patience)
    if entered and ladder.step is StopStep.TERM:
        worker_process.ask_to_stop(worker)
    elif entered and ladder.step is StopStep.KILL:
        await in_time(ladder, lambda: worker_process.kill_group(worker))
    elif ladder.step >= StopStep.SWEEP:
        await in_time(ladder, lambda: sweep(ladder, worker))
    return entered


async def in_time(ladder: StopLadder, look: Callable[[], T]) -> T | None:
    """Return the result of a look at processes in a thread; None if it does not come back. A process that hangs in the
    driver can block a reader of its /proc, and nothing else may wait for that: no second look begins meanwhile."""
    if ladder.looking is not None and not ladder.looking.done():
        return None
    found = ladder.looking = asyncio.get_running_loop().run_in_executor(None, look)
    await asyncio.wait({found}, timeout=LOOK_S)
    return found.result() if found.done() else None


async def told_of(ladder: StopLadder, worker: Worker) -> str:
    """Return what still runs of a worker that cannot be ended, for the operator."""
    found = await in_time(ladder, lambda: remains(worker))
    return "a look at its processes hangs in the kernel" if found is None else ", ".join(found)


def sweep(ladder: StopLadder, worker: Worker) -> None:
    """SIGKILL every process of the attempt that was not sent one: the cgroup, else what carries the marker. The shim is
    left to write the exit record, unless nothing else is left and it does not end."""
    folder = Path(worker.record.cgroup)
    if folder.name == worker.uuid:  # made for this attempt alone; no other cgroup is ever killed
        cgroups.kill(folder)
    alive = set(worker_process.members(worker.uuid))
    lingers = alive == {worker.record.shim} and time.monotonic() - ladder.since > SHIM_S
    for pid in alive - ladder.killed:
        if pid != worker.record.shim or lingers:
            worker_process.kill_member(pid, worker.uuid)
            ladder.killed.add(pid)


def remains(worker: Worker) -> list[str]:
    """Return what still runs of a worker, one text per process, for the operator."""
    return [f"pid {pid} ({worker_process.state_of(pid)})" for pid in sorted(worker_process.members(worker.uuid))]
