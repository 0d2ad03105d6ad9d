"""The waiting jobs in memory, so that deciding about 10,000 of them asks the store nothing. The store stays the truth:
what a commit moved is followed here, and whenever something else about jobs has changed all are read again.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rwkv_daemon.store import JobRow
from rwkv_daemon.store.rates import QueuedJob
from rwkvctl.protocol.messages import Event

FOLLOWED: Final = ("job.state", "job.score", "job.engine", "engine.", "gpu.", "judge", "lease", "zombie", "daemon")
"""Events after which the queue is known without reading it: it did not change, or the moved jobs are at hand."""

GENERATED: Final = frozenset({"grading", "judging", "done", "stopped", "failed"})
"""States in which a job may have completions that others can take over."""

TRUSTED_S: Final = 60.0
"""Even if nothing seems to have changed the queue is read again so often."""


@dataclass(slots=True)
class Queue:
    """`stale`: to be read again; `due`: something has happened that placement should look at; `may_share`: a job may
    have come that takes over completions, or one that has some. `since`: monotonic time
    from which each job waits for a place; `told`: what the store says of why it waits. `running` are the jobs that had
    a runner when placement last looked."""

    jobs: dict[int, QueuedJob] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    stale: bool = True
    due: bool = True
    may_share: bool = True
    placed_at: float = 0.0
    cost_s: float = 0.0
    read_at: float = 0.0
    measured_at: float = 0.0
    running: dict[int, JobRow] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=dict)
    told: dict[int, tuple[str, str]] = field(default_factory=dict)

    def committed(self, moved: Iterable[JobRow], events: Iterable[Event]) -> None:
        """Follow a transaction that was just committed."""
        for event in events:
            self.due = True
            self.stale = self.stale or not event.kind.startswith(FOLLOWED)
        for job in moved:
            self.may_share = self.may_share or job.state == "queued" or job.state in GENERATED
            if job.state == "queued":
                self.jobs[job.id] = slim(job)
                self.stale = self.stale or job.weights_sha256 not in self.sizes
                self.told[job.id] = (str(job.reason), job.detail)
            else:
                self.forget(job.id)

    def read(self, jobs: Iterable[QueuedJob], sizes: dict[str, int]) -> None:
        """Take over what the store says."""
        self.jobs, self.sizes, self.stale = {job.id: job for job in jobs}, sizes, False
        self.read_at, self.may_share = time.monotonic(), True
        self.since = {number: at for number, at in self.since.items() if number in self.jobs}
        self.told = {number: why for number, why in self.told.items() if number in self.jobs}

    def forget(self, job: int) -> None:
        """It waits no longer."""
        for table in (self.jobs, self.since, self.told):
            table.pop(job, None)

    def waited_s(self, job: int, clock: float) -> float:
        """How long it has been waiting for a place; it begins to if it has not."""
        return clock - self.since.setdefault(job, clock)

    def is_due(self, every_s: float) -> bool:
        """Whether placement should decide now: something happened, or it was long ago. A decision about very many jobs
        takes a while; it is made so seldom that it is a tenth of the daemon's time."""
        clock = time.monotonic()
        if clock - self.placed_at < max(0.0 if self.due else every_s, 10 * self.cost_s):
            return False
        self.due, self.placed_at = False, clock
        self.stale = self.stale or clock - self.read_at > TRUSTED_S
        return True


def slim(job: JobRow) -> QueuedJob:
    """What placement needs of a job."""
    return QueuedJob(
        job.id, job.model, job.weights_path, job.weights_sha256, job.benchmark, job.kind, job.numerics, job.priority,
        job.group_name, job.total, job.done, job.generation_key,
    )  # fmt: skip
