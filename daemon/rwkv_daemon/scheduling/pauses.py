"""What does not run now although nothing is wrong with it: the queue, a model, a group, or all of the node. Pure.

A pause of one job is that job's own state. The pauses here are wider: they cover jobs that are queued later too, and
their jobs stay `queued` and go on by themselves when the pause is lifted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.rules.queued_job import QueuedJob
from rwkv_daemon.store import JobRow

Scope = Literal["queue", "model", "group", "node", "judge"]
"""`queue`, `model` and `group` end what runs at its next batch; `node` is a drain: what runs goes on to its end; while
the `judge` is paused neither it nor the checker is asked, so nothing is paid."""


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause that somebody began. `name` is the model's or the group's."""

    scope: Scope
    name: str
    at: str
    who: str
    why: str

    def covers(self, job: JobRow | QueuedJob) -> bool:
        match self.scope:
            case "model":
                return job.model == self.name
            case "group":
                return job.group_name == self.name
            case _:
                return True

    @property
    def what(self) -> str:
        """The pause in words, without who and why: `the queue is paused`, `model NAME is paused`."""
        words = {"queue": "the queue is paused", "node": "the node is draining", "judge": "the judge is paused"}
        return words.get(self.scope, f"{self.scope} {self.name} is paused")

    @property
    def sentence(self) -> str:
        """Return the reason that the operator reads beside each job that waits for it."""
        return f"{self.what} by {self.who} since {self.at[:19]}Z" + (f": {self.why}" if self.why else "")


@dataclass(slots=True)
class Pauses:
    """Every pause in force. `disk` says why there is too little room, `trials` which job is tried alone because engines
    died under it: other jobs for the same kind of engine wait meanwhile."""

    standing: dict[tuple[Scope, str], Pause] = field(default_factory=dict)
    disk: str = ""
    trials: dict[EngineKind, int] = field(default_factory=dict)

    def covers(self, job: JobRow | QueuedJob) -> str:
        """Return why this job is not to be started now; empty if it may start."""
        return next(self.reasons(job, starting=True), "")

    def ends(self, job: JobRow) -> str:
        """Return why this running job is to end at its next batch; empty if it may go on."""
        return next(self.reasons(job, starting=False), "")

    def reasons(self, job: JobRow | QueuedJob, *, starting: bool) -> Iterator[str]:
        """Yield the sentences that apply, the most general first. A drain concerns only jobs that have not started."""
        if self.disk:
            yield self.disk
        for scope in ("node", "queue", "model", "group"):
            for pause in self.standing.values():
                if pause.scope == scope and pause.covers(job) and (starting or scope != "node"):
                    yield pause.sentence
        trial = self.trials.get(EngineKind(job.weights_sha256, job.numerics))
        if trial is not None and trial != job.id:
            yield f"waits while j{trial} is tried alone: engines died under it"

    def sentences(self) -> list[str]:
        """Return a sentence for everything that is paused, for the overview."""
        trials = [f"j{job} is tried alone: engines died under it and others" for job in self.trials.values()]
        return [*filter(None, [self.disk]), *(pause.sentence for pause in self.standing.values()), *trials]

    @property
    def draining(self) -> Pause | None:
        """The drain of the node that is in force; None if there is none."""
        return self.standing.get(("node", ""))
