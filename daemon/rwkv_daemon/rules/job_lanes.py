"""The waiting jobs in lanes, so that placement looks at the head of each lane and not at every job. Pure.

A lane holds jobs that placement treats alike: of one priority, model, engine kind and group. They stand in the order in
which they start, and their sums are kept, so that a round costs as much as there are lanes, whether ten jobs wait or a
million. Lanes change only with jobs that come, go or become late, with pauses, and with measured rates.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from rwkv_daemon.rules.placement import PATIENCE_S, EngineKind
from rwkv_daemon.rules.queued_job import QueuedJob

FEW: Final = 32
"""Up to so many jobs are inserted one by one; more are sorted in together."""
UNKNOWN: Final = float("-inf")
"""Stands for the length of work of unknown duration: it may be the longest of all."""

NOTHING: Final[Mapping[int, float]] = {}
Price = Callable[[QueuedJob], float | None]
Covers = Callable[[QueuedJob], str]
"""Returns why a job must not start now; empty if it may."""


class LaneKey(NamedTuple):
    """What the jobs of a lane have in common."""

    priority: int
    model: str
    needs: EngineKind
    group: str


class LaneTurn(NamedTuple):
    """Where a job stands; turns sort as placement serves them. `length` is the negative of its work in seconds."""

    level: int
    early: bool
    length: float
    job: int


@dataclass(slots=True)
class JobLane:
    """`order`: (length, job) of those that are not late, longest first; `late`: those that have waited too long, oldest
    first. `arrivals`: a heap of (time, job), also of jobs that have gone. `shut`: why nothing in it starts now, since
    `shut_at`; that time does not count as waiting, and `stood` is its sum so far."""

    key: LaneKey
    lengths: dict[int, float] = field(default_factory=dict)
    order: list[tuple[float, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    since: dict[int, float] = field(default_factory=dict)
    samples: int = 0
    known: int = 0
    known_s: float = 0.0
    shut: str = ""
    shut_at: float = 0.0
    stood: float = 0.0

    @property
    def work_s(self) -> float | None:
        """Return the seconds of one engine over the jobs of known duration; None if there is none."""
        return self.known_s if self.known else None

    def time(self, clock: float) -> float:
        """Return the lane's clock in seconds, which stands still while the lane is shut."""
        return (self.shut_at if self.shut else clock) - self.stood

    def put(self, jobs: Collection[QueuedJob], price: Price, clock: float, waited: Mapping[int, float]) -> None:
        """Add jobs to the lane; `waited` says how long jobs that were moved here have waited already."""
        now = self.time(clock)
        places = []
        for job in jobs:
            length = self.count(job, price(job))
            since = self.since[job.id] = now - waited.get(job.id, 0.0)
            heapq.heappush(self.arrivals, (since, job.id))
            places.append((length, job.id))
        if len(places) <= FEW:
            for place in places:
                insort(self.order, place)
        else:
            self.order = sorted(self.order + places)

    def count(self, job: QueuedJob, work_s: float | None) -> float:
        """Add a job to the sums; returns its length."""
        self.samples += max(0, job.total - job.done)
        if work_s is not None:
            self.known, self.known_s = self.known + 1, self.known_s + work_s
        length = self.lengths[job.id] = UNKNOWN if work_s is None else -work_s
        return length

    def take(self, jobs: Collection[QueuedJob]) -> None:
        """Remove jobs from the lane; each must be in it."""
        gone = {job.id for job in jobs}
        if len(gone) > FEW:
            self.order = [place for place in self.order if place[1] not in gone]
            self.late = [number for number in self.late if number not in gone]
        for job in jobs:
            length = self.lengths.pop(job.id)
            del self.since[job.id]
            self.samples -= max(0, job.total - job.done)
            if length != UNKNOWN:
                self.known, self.known_s = self.known - 1, self.known_s + length
            if len(gone) <= FEW:
                drop(self.order, (length, job.id))
                drop(self.late, job.id)
        if len(self.arrivals) > 2 * len(self.since) + FEW:
            self.arrivals = sorted((at, number) for number, at in self.since.items())

    def promote(self, clock: float) -> None:
        """Move jobs that have waited too long before the others."""
        now, late = self.time(clock), set[int]()
        while self.arrivals and now - self.arrivals[0][0] > PATIENCE_S:
            at, number = heapq.heappop(self.arrivals)
            if self.since.get(number) == at:
                late.add(number)
        if late:
            self.order = [place for place in self.order if place[1] not in late]
            self.late = sorted([*self.late, *late])

    def shut_for(self, why: str, clock: float) -> None:
        """Shut the lane for a reason; open it if `why` is empty."""
        if why and not self.shut:
            self.shut_at = clock
        elif self.shut and not why:
            self.stood += clock - self.shut_at
        self.shut = why

    def reprice(self, jobs: Mapping[int, QueuedJob], price: Price) -> None:
        """Estimate the work of every job anew."""
        self.samples, self.known, self.known_s = 0, 0, 0.0
        late = set(self.late)
        for number in self.lengths:
            self.count(jobs[number], price(jobs[number]))
        self.order = sorted((length, number) for number, length in self.lengths.items() if number not in late)

    def head(self) -> LaneTurn:
        """Return the turn of the lane's first job. Raises StopIteration if it has none."""
        return next(self.turns())

    def turns(self) -> Iterator[LaneTurn]:
        """Yield the turns of its jobs in the order in which they start."""
        level = -self.key.priority
        for number in self.late:
            yield LaneTurn(level, False, 0.0, number)
        for length, number in self.order:
            yield LaneTurn(level, True, length, number)

    def waited_s(self, job: int, clock: float) -> float:
        """Return how long a job has been waiting for a place."""
        return self.time(clock) - self.since[job]


def drop(places: list[Any], place: object) -> None:
    """Remove an item from a sorted list, if it is there."""
    at = bisect_left(places, place)
    if at < len(places) and places[at] == place:
        del places[at]


@dataclass(slots=True)
class JobLanes:
    """Every waiting job. Of jobs with one generation key (`families`) one waits in its lane, and the others are
    `behind` it, or behind one that runs. `delayed`: those that wait for a retry; `exempt`: those that may start
    although their lane is shut. `version` changes with anything here."""

    jobs: dict[int, QueuedJob] = field(default_factory=dict)
    lanes: dict[LaneKey, JobLane] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)
    families: dict[str, set[int]] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)
    delayed: set[int] = field(default_factory=set)
    busy: dict[str, int] = field(default_factory=dict)
    """Generation keys that are being generated, each with its job."""
    unsettled: set[str] = field(default_factory=set)
    """Generation keys of families whose first job may have changed."""
    unlooked: set[LaneKey] = field(default_factory=set)
    """Lanes that have not been checked for pauses yet."""
    exempt: list[int] = field(default_factory=list)
    id_sum: int = 0
    version: int = 0

    # jobs that come and go

    def put(self, jobs: Iterable[QueuedJob], price: Price, clock: float) -> None:
        """Add waiting jobs; one that is already there is replaced."""
        coming = {job.id: job for job in jobs}
        known = [number for number in coming if number in self.jobs]
        waited = {number: self.waited_s(number, clock) for number in known}
        self.take(known)
        for job in coming.values():
            self.jobs[job.id] = job
            self.id_sum += job.id
            self.join_family(job)
        self.enter(coming.values(), price, clock, waited)

    def take(self, numbers: Iterable[int]) -> None:
        """Remove jobs that wait no longer; unknown numbers are skipped."""
        going = [job for number in numbers if (job := self.jobs.get(number)) is not None]
        self.leave(going)
        for job in going:
            if self.jobs.pop(job.id, None) is not None:
                self.id_sum -= job.id
                self.delayed.discard(job.id)
                self.behind.pop(job.id, None)
                self.leave_family(job)

    def enter(
        self, jobs: Iterable[QueuedJob], price: Price, clock: float, waited: Mapping[int, float] = NOTHING
    ) -> None:
        """Put jobs into their lanes, which are made if missing."""
        self.version += 1
        for key, some in by_lane(jobs).items():
            lane = self.lanes.get(key)
            if lane is None:
                lane = self.lanes[key] = JobLane(key)
                self.unlooked.add(key)
            lane.put(some, price, clock, waited)

    def leave(self, jobs: Iterable[QueuedJob]) -> None:
        """Take jobs out of their lanes, if they are in one."""
        self.version += 1
        for key, some in by_lane(jobs).items():
            lane = self.lanes.get(key)
            if lane is not None:
                lane.take([job for job in some if job.id in lane.lengths])
                if not lane.lengths:
                    del self.lanes[key]

    def join_family(self, job: QueuedJob) -> None:
        key = job.generation_key
        if not key:
            return
        first = self.firsts.setdefault(key, job.id)
        if first != job.id:
            self.families.setdefault(key, {first}).add(job.id)
        if first != job.id or key in self.busy:
            self.unsettled.add(key)

    def leave_family(self, job: QueuedJob) -> None:
        key = job.generation_key
        if not key:
            return
        family = self.families.get(key, set())
        family.discard(job.id)
        if family:
            self.unsettled.add(key)
            self.firsts[key] = next(iter(family))
        else:
            del self.firsts[key]
        if len(family) < 2:
            self.families.pop(key, None)

    # once a round

    def shut(self, covers: Covers, alone: Iterable[int], clock: float, *, anew: bool) -> None:
        """Check which lanes a pause covers: the new ones, or all if `anew`. `alone` are jobs that may start although
        others of their lane may not."""
        for key in list(self.lanes if anew else self.unlooked & self.lanes.keys()):
            lane = self.lanes[key]
            nobody = replace(self.jobs[next(iter(lane.lengths))], id=0)
            lane.shut_for(covers(nobody), clock)
        if anew:
            self.version += 1
            self.unsettled |= self.families.keys()
        self.unlooked.clear()
        self.exempt = [number for number in alone if number in self.jobs and self.is_exempt(self.jobs[number], covers)]

    def is_exempt(self, job: QueuedJob, covers: Covers) -> bool:
        """Whether a job may start although its lane is shut."""
        lane = self.lanes.get(key_of(job))
        return lane is not None and bool(lane.shut) and job.id in lane.lengths and not covers(job)

    def delay(self, until: Mapping[int, float], price: Price, clock: float) -> None:
        """Take jobs that wait for a retry out of their lanes, and put them back when their time has come."""
        aside = {number for number, at in until.items() if at > clock and number in self.jobs}
        if aside == self.delayed:
            return
        back, off = self.delayed - aside, aside - self.delayed
        self.delayed = aside
        moved = [self.jobs[number] for number in back | off]
        self.leave(moved)
        self.enter([self.jobs[number] for number in back], price, clock)
        for job in moved:
            self.behind.pop(job.id, None)
            if job.generation_key in self.families or job.generation_key in self.busy:
                self.unsettled.add(job.generation_key)

    def settle(self, busy: Mapping[str, int], covers: Covers, price: Price, clock: float) -> None:
        """Let one of the jobs that generate the same wait in its lane, and the others behind it."""
        changed = {key for key, _ in busy.items() ^ self.busy.items() if key in self.firsts}
        self.busy = dict(busy)
        unsettled, self.unsettled = self.unsettled | changed, set()
        for key in unsettled & self.firsts.keys():
            family = [self.jobs[number] for number in self.families.get(key, {self.firsts[key]})]
            ready = [job for job in family if job.id not in self.delayed and not covers(job)]
            first = self.busy.get(key) or min(((-job.priority, job.id) for job in ready), default=(0, 0))[1]
            waits = {job.id for job in ready if job.id != first}
            back = [job for job in family if job.id in self.behind and job.id not in waits | self.delayed]
            off = [job for job in family if job.id in waits and job.id not in self.behind]
            self.leave(off)
            for job in back:
                del self.behind[job.id]
            self.enter(back, price, clock)
            self.behind.update(dict.fromkeys(waits, first))

    # what placement is told

    def open_lanes(self) -> list[JobLane]:
        """Return the lanes that are not shut."""
        return [lane for lane in self.lanes.values() if not lane.shut]

    def front(self, rooms: Mapping[EngineKind, int], first: int) -> list[int]:
        """Return the jobs that one round can be about: of each lane as many as find room and one more, and the `first`
        of all that wait, whose reasons are stored."""
        lanes, found = self.open_lanes(), dict.fromkeys(self.exempt)
        for lane in lanes:
            for turn in islice(lane.turns(), rooms.get(lane.key.needs, 0) + 1):
                found[turn.job] = None
        for turn in self.turns(lanes, first + sum(rooms.values())):
            found[turn.job] = None
        return list(found)

    def turns(self, lanes: Collection[JobLane], most: int) -> Iterator[LaneTurn]:
        """Yield the first jobs of some lanes in the order in which they start. Of very many lanes only those are read
        whose heads are among the first."""
        heads = heapq.nsmallest(most, ((lane.head(), place) for place, lane in enumerate(lanes)))
        every = list(lanes)
        return islice(heapq.merge(*(every[place].turns() for _, place in heads)), most)

    def set_aside(self, most: int) -> list[tuple[int, str]]:
        """Return (job, why) for the oldest of the jobs that a pause covers."""
        shut = [lane for lane in self.lanes.values() if lane.shut]
        first = heapq.nsmallest(most, ((next(iter(lane.lengths)), place) for place, lane in enumerate(shut)))
        numbers = (number for _, place in first for number in islice(shut[place].lengths, most))
        oldest = heapq.nsmallest(most, (number for number in numbers if number not in self.exempt))
        return [(number, self.lanes[key_of(self.jobs[number])].shut) for number in oldest]

    def waited_s(self, job: int, clock: float) -> float:
        """Return how long a job has been waiting for a place; 0 if it is not in its lane."""
        lane = self.lanes.get(key_of(self.jobs[job]))
        return lane.waited_s(job, clock) if lane is not None and job in lane.since else 0.0


def key_of(job: QueuedJob) -> LaneKey:
    return LaneKey(job.priority, job.model, EngineKind(job.weights_sha256, job.numerics), job.group_name)


def by_lane(jobs: Iterable[QueuedJob]) -> dict[LaneKey, list[QueuedJob]]:
    found: dict[LaneKey, list[QueuedJob]] = {}
    for job in jobs:
        found.setdefault(key_of(job), []).append(job)
    return found
