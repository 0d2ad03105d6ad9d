"""The waiting jobs in memory, so that placing a million of them needs no query. The store stays the truth: moves are
followed with each commit, and jobs that changed otherwise are read again."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rwkv_daemon.rules.job_lanes import Covers, JobLanes, LaneKey, Price
from rwkv_daemon.rules.queued_job import QueuedJob
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.events import Event

GENERATED: Final = frozenset({"grading", "judging", "done", "stopped", "failed"})
"""States in which a job may have completions that others can take over."""
KNOWN_BY_MOVE: Final = ("job.state", "job.score", "job.engine")
"""Events of a job after which it need not be read: it did not change, or the moved job is at hand."""

TRUSTED_S: Final = 60.0
"""The queue is compared with the store at this interval, even if nothing seems to have changed."""
REPRICE_S: Final = 30.0
"""Measured rates change with every job that ends; the order of very many jobs is updated only so often."""
AT_ONCE: Final = 2000
"""Jobs whose duration is estimated again in one round."""
BUSY_SHARE, IDLE_SHARE = 10.0, 200.0
"""Placement runs so seldom that it takes a tenth of the time while things happen (BUSY_SHARE), and half a percent
otherwise."""


def unknown(_job: QueuedJob) -> float | None:
    """Return the duration of a job before the first placement: unknown."""
    return None


@dataclass(slots=True)
class JobQueue:
    """The queue of waiting jobs in lanes, with what has to be read or updated before the next placement."""

    lanes: JobLanes = field(default_factory=JobLanes)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of the checkpoint files by sha256, to be read if `unsized`."""

    stale: bool = True
    """Whether everything is to be read again."""

    unread: set[int] = field(default_factory=set)
    """Jobs that are to be read again."""

    newest: int = 0
    """The highest job number that was read."""

    grown: bool = False
    """Whether there may be jobs with higher numbers."""

    meanwhile: set[int] = field(default_factory=set)
    """Jobs that have moved since reading began."""

    unsized: bool = True
    due: bool = True
    """Whether something has happened that placement should consider."""

    to_share: dict[int, None] = field(default_factory=dict)
    """Jobs that may take over completions, or have some for others."""

    placed_at: float = 0.0
    """When placement ran last (monotonic); `cost_s` is how long it took."""

    cost_s: float = 0.0
    checked_at: float = 0.0
    """When the queue was last compared with the store; `measured_at` is when engine time was last added."""

    measured_at: float = 0.0
    running: dict[int, JobRow] = field(default_factory=dict)
    """The jobs that had a runner at the last placement."""

    told: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The stored (reason, detail) of each waiting job."""

    price: Price = unknown
    """Estimates a job's duration, from the rates in `priced`."""

    priced: object = None
    priced_at: float = float("-inf")
    unpriced: list[LaneKey] = field(default_factory=list)
    """Lanes with older estimates."""

    paused: object = None
    """The pauses that the lanes were last checked with."""

    aside: tuple[int, list[tuple[int, str]]] = (-1, [])
    """The jobs that a pause covers with the reason, as of the lanes' version."""

    @property
    def jobs(self) -> Mapping[int, QueuedJob]:
        """Every waiting job, by its number."""
        return self.lanes.jobs

    def committed(self, moved: Collection[JobRow], events: Iterable[Event]) -> None:
        """Follow a transaction that was just committed."""
        for event in events:
            self.due = True
            if event.kind == "session":
                self.grown = True
            elif event.kind == "weights":
                self.unsized = True
            elif event.job and not event.kind.startswith(KNOWN_BY_MOVE):
                self.unread.add(int(event.job[1:]))
        last = {job.id: job for job in moved}
        self.meanwhile |= last.keys()
        self.forget(number for number, job in last.items() if job.state != "queued")
        self.add(slim(job) for job in last.values() if job.state == "queued")
        for job in last.values():
            if job.state == "queued" and (job.reason or job.detail):
                self.told[job.id] = (str(job.reason), job.detail)
            elif job.state in GENERATED and job.generation_key in self.lanes.firsts:
                self.to_share[job.id] = None

    def add(self, jobs: Iterable[QueuedJob]) -> None:
        """Add jobs to the queue."""
        coming = list(jobs)
        if coming:
            self.due = True
            self.lanes.put(coming, self.price, time.monotonic())
            self.to_share.update(dict.fromkeys(job.id for job in coming))
            self.unsized = self.unsized or any(job.weights_sha256 not in self.sizes for job in coming)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove jobs that wait no longer; numbers that are not in the queue are skipped."""
        going = [number for number in numbers if number in self.lanes.jobs]
        self.lanes.take(going)
        for number in going:
            self.told.pop(number, None)
            self.to_share.pop(number, None)

    def moved_many(self, numbers: Collection[int], *, waits: bool) -> None:
        """Follow a transaction that moved very many jobs: they wait from now on, or no longer."""
        self.meanwhile.update(() if waits else numbers)
        if waits:
            self.unread.update(numbers)
        else:
            self.forget(numbers)
        self.due = True

    def read_anew(self, jobs: Collection[QueuedJob]) -> None:
        """Replace the queue by the waiting jobs that were read from the store."""
        self.forget(self.jobs.keys() - {job.id for job in jobs} - self.meanwhile)
        self.stale, self.checked_at = False, time.monotonic()
        self.grown_by(jobs)

    def grown_by(self, jobs: Collection[QueuedJob]) -> None:
        """Add jobs that have come, in order of number. Of those that moved while they were read, the present state is
        known."""
        self.add(job for job in jobs if job.id not in self.meanwhile)
        self.newest = max(self.newest, max((job.id for job in jobs), default=0))

    def read_again(self, numbers: set[int], waiting: Collection[QueuedJob]) -> None:
        """Replace the jobs `numbers` by what was read from the store: those in `waiting` wait, the others no longer."""
        self.forget(numbers - {job.id for job in waiting} - self.meanwhile)
        self.grown_by(waiting)

    def is_as(self, count: int, id_sum: int) -> bool:
        """Whether so many jobs wait, with this sum of numbers."""
        return (count, id_sum) == (len(self.jobs), self.lanes.id_sum)

    def refresh(
        self, price: Price, priced: object, paused: object, covers: Covers, alone: Iterable[int],
        retry_at: Mapping[int, float], clock: float,
    ) -> None:  # fmt: skip
        """Update the lanes before a placement. `priced` and `paused` are values that change when estimates or pauses
        do."""
        self.price = price
        if priced != self.priced and clock - self.priced_at > min(REPRICE_S, len(self.jobs) / 1000):
            self.priced, self.priced_at, self.unpriced = priced, clock, list(self.lanes.lanes)
        done = 0
        while self.unpriced and done < AT_ONCE:
            if (lane := self.lanes.lanes.get(self.unpriced.pop())) is not None:
                lane.reprice(self.jobs, price)
                done += len(lane.lengths)
        self.due = self.due or bool(self.unpriced)
        self.lanes.delay(retry_at, price, clock)
        self.lanes.shut(covers, alone, clock, anew=paused != self.paused)
        self.paused = paused
        busy = {job.generation_key: job.id for job in self.running.values() if job.generation_key}
        self.lanes.settle(busy, covers, price, clock)
        self.lanes.shut(covers, alone, clock, anew=False)
        for lane in self.lanes.lanes.values():
            lane.promote(clock)

    def waiting_aside(self, most: int) -> list[tuple[int, str]]:
        """Return (job, why) for the oldest jobs that a pause covers."""
        if self.aside[0] != self.lanes.version:
            self.aside = (self.lanes.version, self.lanes.set_aside(most))
        return self.aside[1]

    def is_due(self, every_s: float) -> bool:
        """Whether placement should run now: something happened, or the last time was long ago."""
        clock = time.monotonic()
        pause_s = BUSY_SHARE * self.cost_s if self.due else max(every_s, IDLE_SHARE * self.cost_s)
        if clock - self.placed_at < pause_s:
            return False
        self.due, self.placed_at = False, clock
        return True

    def is_to_be_checked(self) -> bool:
        """Whether it is time to compare the queue with the store."""
        clock = time.monotonic()
        if clock - self.checked_at < TRUSTED_S:
            return False
        self.checked_at = clock
        return True


def slim(job: JobRow) -> QueuedJob:
    """Return the fields of a job that placement needs."""
    return QueuedJob(
        job.id, job.model, job.weights_path, job.weights_sha256, job.benchmark, job.kind, job.numerics, job.priority,
        job.group_name, job.total, job.done, job.generation_key,
    )  # fmt: skip
