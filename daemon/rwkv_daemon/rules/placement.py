"""Which job starts next on which engine, and which engine starts or is unloaded. Pure: facts in, commands out.

Priorities are strict: the following is done for the highest level first. A job whose engine is loaded and has room
starts there, longest expected work first. A kind of work without an engine gets a free lease that it fits; else it
waits for an engine that is being unloaded, or takes the place of one that has no work, or of one whose kind has others.
Leases that are then still free go to kinds whose work ends sooner with one more engine (`scale_out`). A job that has
waited too long is served before younger ones and, if it has no engine, gets one closed for it: nothing waits for ever.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple

from rwkv_daemon.rules.memory_fit import FreeLease, best_lease, fits_anywhere, taken
from rwkv_daemon.rules.scale_out import Outlook, pays
from rwkvctl.protocol.states import EngineState, Reason


class EngineKind(NamedTuple):
    """What an engine serves: one set of weights (by sha256, never by path) in one numerics profile."""

    weights: str
    numerics: str


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that needs a place. `work_s`: seconds of one engine that does nothing else, None if unknown. `goes_on`: it
    runs, and its engine is gone."""

    id: int
    needs: EngineKind
    waited_s: float = 0.0
    priority: int = 0
    group: str = ""
    work_s: float | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class EngineFact:
    """An engine: `jobs` counts the jobs placed on it, `helps`: it works for jobs of another engine of its kind;
    `idle_s` since it last did either; `wants_work` is what its `room` says. `closed` says why it takes no new jobs: its
    GPU is drained or reserved. `leaving`: the last round closed it."""

    id: int
    serves: EngineKind
    lease: str
    state: EngineState
    jobs: int
    idle_s: float = 0.0
    wants_work: bool = True
    closed: str = ""
    leaving: bool = False
    helps: bool = False


@dataclass(frozen=True, slots=True)
class StartJob:
    job: int
    engine: int


@dataclass(frozen=True, slots=True)
class StartEngine:
    """Start an engine. `slots`: which parts of the lease it gets; `job` is the one it is started for, 0 if it helps
    others."""

    serves: EngineKind
    lease: str
    job: int
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CloseEngine:
    """Give an engine no new work in this round; its work moves to other engines of its kind, or ends there."""

    engine: int
    why: str


@dataclass(frozen=True, slots=True)
class UnloadEngine:
    engine: int
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that cannot start now, and the reason for the operator."""

    job: int
    reason: Reason
    detail: str


Command = StartJob | StartEngine | CloseEngine | UnloadEngine | Wait
LIVE = {"starting", "loading", "ready"}
COMING = {"starting", "loading"}
PATIENCE_S = 900.0
"""A job that has waited longer for a place comes first in its level, and an engine is closed for it."""
EXPLAINED = 200
"""Jobs whose reason to wait is stored: more than anybody reads, and few enough to store."""
NEEDED: Final = "a waiting job needs its place"
MAKES_WAY: Final = "it makes way for work that has no engine"
STARVED: Final = "it makes way for a job that has waited long"
SPREADS: Final = "it has no work, and other work ends sooner with its place"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResources:
    """What the node has: engines, leases with room, the size of every lease in bytes (0: unknown), what is known of
    each kind of work, and limits. `only`: the only profile that a lease may be used for, for leases that have one.
    `names`: what people call a lease. `groups`: how many more jobs of a group may start; others have no limit.
    `not_now`: kinds whose engines have just failed, and why."""

    engines: tuple[EngineFact, ...]
    free: tuple[FreeLease, ...]
    runners_per_engine: int
    idle_unload_s: float
    share_gpus: int = 1
    leases: Mapping[str, int] = field(default_factory=dict)
    only: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    outlook: Mapping[EngineKind, Outlook] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    not_now: Mapping[EngineKind, str] = field(default_factory=dict)


def place(waiting: Iterable[WaitingJob], node: NodeResources) -> list[Command]:
    """Return the commands of one round. Each job gets one, each engine at most one new use."""
    order = in_order(waiting)
    levels: dict[int, list[WaitingJob]] = {o.priority: [] for o in node.outlook.values() if o.running}
    for job in order:
        levels.setdefault(job.priority, []).append(job)
    now = PlacementRound.of(node)
    now.close_for_the_starved(order)
    for level in sorted(levels, reverse=True):
        now.find_places(level, levels[level])
        left = {job.needs for job in levels[level] if not now.start(job)}
        now.spread(level, left)
    now.explain(order)
    now.unload()
    return now.commands


def in_order(waiting: Iterable[WaitingJob]) -> list[WaitingJob]:
    """Sort by priority; in a level first jobs that run and lost their engine, then those that have waited too long,
    then the longest work. Work of unknown duration may be the longest, and is soon known."""

    def key(job: WaitingJob) -> tuple[int, bool, bool, float, int]:
        late = job.waited_s > PATIENCE_S
        length = 0.0 if late else float("-inf") if job.work_s is None else -job.work_s
        return -job.priority, not job.goes_on, not late, length, job.id

    return sorted(waiting, key=key)


def closing_order(engine: EngineFact) -> tuple[bool, int, int]:
    """Return the sort key of the engine to close: one that is closed already, so that a round does not undo the last
    one's choice; then the one with the fewest jobs."""
    return not engine.leaving, engine.jobs, engine.id


@dataclass(slots=True)
class PlacementRound:
    """One round in progress: what is left of everything after the commands so far."""

    node: NodeResources
    engines: dict[int, EngineFact]
    free: dict[str, FreeLease]
    groups: dict[str, int]
    own: dict[EngineKind, set[int]] = field(default_factory=dict)
    rooms: dict[EngineKind, list[tuple[int, int]]] = field(default_factory=dict)
    wanted: set[EngineKind] = field(default_factory=set)
    promised: int = 0
    done: set[int] = field(default_factory=set)
    commands: list[Command] = field(default_factory=list)

    @classmethod
    def of(cls, node: NodeResources) -> "PlacementRound":
        free, groups = {lease.id: lease for lease in node.free}, dict(node.groups)
        now = cls(node, {engine.id: engine for engine in node.engines}, free, groups)
        now.promised = sum(engine.state == "unloading" for engine in node.engines)
        for engine in node.engines:
            if engine.state in LIVE and not engine.closed:
                now.own.setdefault(engine.serves, set()).add(engine.id)
        return now

    def outlook(self, kind: EngineKind) -> Outlook:
        return self.node.outlook.get(kind, Outlook())

    def open_ones(self, kind: EngineKind) -> list[EngineFact]:
        """Return the engines that serve a kind now or soon, and are not closed."""
        return [self.engines[number] for number in self.own.get(kind, ())]

    # places for kinds of work that have none

    def find_places(self, level: int, jobs: list[WaitingJob]) -> None:
        """Find an engine for every kind of this level without one; before its jobs are started, so that an engine that
        is to make way gets no new ones. Jobs whose group is full need none now."""
        first: dict[EngineKind, WaitingJob] = {}
        for job in jobs:
            if self.may_start(job):
                first.setdefault(job.needs, job)
        self.wanted |= first.keys()
        for kind, job in first.items():
            if self.open_ones(kind) or kind in self.node.not_now or self.misfit(kind):
                continue
            if not self.start_engine(kind, job.id):
                self.make_way(kind, level)

    def misfit(self, kind: EngineKind) -> str:
        """Return why no lease of the node is large enough; empty if one is."""
        return fits_anywhere(self.outlook(kind).need_bytes, kind.numerics, self.node.leases, self.node.only)

    def start_engine(self, kind: EngineKind, job: int, *, another: bool = False) -> bool:
        """Start an engine on the best free lease; False if it fits none. A further engine of a kind goes to another
        GPU."""
        found = self.best_lease(kind, another=another)
        if found is None:
            return False
        lease, slots = found
        left = taken(lease, slots, kind)
        if left is None:
            del self.free[lease.id]
        else:
            self.free[lease.id] = left
        self.commands.append(StartEngine(kind, lease.id, job, slots))
        number = -len(self.engines) - 1  # a number that no engine has
        self.engines[number] = EngineFact(number, kind, lease.id, "starting", 0)
        self.own.setdefault(kind, set()).add(number)
        return True

    def best_lease(self, kind: EngineKind, *, another: bool = False) -> tuple[FreeLease, tuple[int, ...]] | None:
        """Return the best free lease for an engine of a kind, and its parts; None if it fits none."""
        free = [lease for lease in self.free.values() if lease.numerics in {"", kind.numerics}]
        not_beside = kind if another else None
        return best_lease(free, self.outlook(kind).need_bytes, self.node.share_gpus, not_beside=not_beside)

    def make_way(self, kind: EngineKind, level: int) -> None:
        """Make way on leases that it may have: wait for an engine that is being unloaded; else unload an idle one;
        else close one of a kind that has others and is not more urgent."""
        every = self.engines.values()
        if self.promised:
            self.promised -= 1
        elif idle := [e for e in every if self.is_idle(e) and self.is_unwanted(e) and self.fits(kind, e.lease)]:
            self.let_go(max(idle, key=lambda e: (bool(e.closed), e.idle_s, -e.id)), NEEDED)
        elif spare := [e for e in every if self.is_spare(e, level) and self.fits(kind, e.lease)]:
            self.close(min(spare, key=closing_order), MAKES_WAY)

    def fits(self, kind: EngineKind, lease: str) -> bool:
        """Whether a lease is large enough for a kind and may be used for its profile."""
        if self.node.only.get(lease, kind.numerics) != kind.numerics:
            return False
        size, need = self.node.leases.get(lease, 0), self.outlook(kind).need_bytes
        return not size or not need or need <= size

    def is_idle(self, engine: EngineFact) -> bool:
        return engine.state == "ready" and not engine.jobs and not engine.helps

    def is_spare(self, engine: EngineFact, level: int) -> bool:
        """Whether its kind keeps another engine without it. A closed one does not count, as it is about to go."""
        if engine.state != "ready" or engine.closed or len(self.own[engine.serves]) < 2:
            return False
        return self.outlook(engine.serves).priority <= level

    def is_unwanted(self, engine: EngineFact) -> bool:
        """Whether no job that is served first waits for it."""
        return bool(engine.closed) or engine.serves not in self.wanted

    def let_go(self, engine: EngineFact, why: str) -> None:
        self.engines[engine.id] = replace(engine, state="unloading")
        self.own.get(engine.serves, set()).discard(engine.id)
        self.commands.append(UnloadEngine(engine.id, why))

    def close(self, engine: EngineFact, why: str) -> None:
        self.engines[engine.id] = replace(engine, closed=why)
        self.own.get(engine.serves, set()).discard(engine.id)
        self.commands.append(CloseEngine(engine.id, why))

    def close_for_the_starved(self, order: list[WaitingJob]) -> None:
        """Close the engine with the fewest jobs for a job that has waited too long: a steady flow of other jobs could
        keep every engine busy for ever."""
        ready = [e for e in self.engines.values() if e.state == "ready"]
        served = {e.serves for e in self.engines.values() if e.state in LIVE}
        late = next((job for job in order if job.waited_s > PATIENCE_S and job.needs not in served), None)
        if late is None or self.promised or not self.may_start(late):
            return
        fitting = [e for e in ready if self.fits(late.needs, e.lease)]
        if fitting and self.best_lease(late.needs) is None:
            self.close(min(fitting, key=closing_order), STARVED)

    # jobs

    def may_start(self, job: WaitingJob) -> bool:
        return job.goes_on or self.groups.get(job.group, 1) > 0

    def start(self, job: WaitingJob) -> bool:
        """Start a job on the engine of its kind with the fewest jobs, if one has room. Also True if its group is full:
        it needs no engine now."""
        if not self.may_start(job):
            return True
        rooms = self.rooms.get(job.needs)
        if rooms is None:
            rooms = self.rooms[job.needs] = [(e.jobs, e.id) for e in self.open_ones(job.needs) if self.has_room(e)]
            heapq.heapify(rooms)
        if not rooms:
            return False
        engine = self.engines[heapq.heappop(rooms)[1]]
        engine = self.engines[engine.id] = replace(engine, jobs=engine.jobs + 1)
        if self.has_room(engine):
            heapq.heappush(rooms, (engine.jobs, engine.id))
        if job.group in self.groups and not job.goes_on:
            self.groups[job.group] -= 1
        self.done.add(job.id)
        self.commands.append(StartJob(job.id, engine.id))
        return True

    def has_room(self, engine: EngineFact) -> bool:
        """Whether it can take a further job. An engine without jobs has room, whatever it reported last."""
        if engine.state != "ready":
            return False
        return not engine.jobs or (engine.wants_work and engine.jobs < self.node.runners_per_engine)

    # engines beside engines

    def spread(self, level: int, full: set[EngineKind]) -> None:
        """Give free leases, and those of idle engines, to the kinds of this level with most work ahead of each of their
        engines. `full`: kinds with jobs that found no room."""
        kinds = {kind for kind, outlook in self.node.outlook.items() if outlook.priority == level} | full
        kinds -= self.node.not_now.keys()
        while True:
            counts = {kind: len(self.open_ones(kind)) for kind in kinds}
            able = [kind for kind, count in counts.items() if self.wants_another(kind, count, full, displaces=False)]
            able.sort(key=lambda kind: self.ahead(kind, counts[kind]), reverse=True)
            if not any(self.start_engine(kind, 0, another=True) for kind in able):
                break
        self.displace({kind: count for kind, count in counts.items() if count}, full)

    def ahead(self, kind: EngineKind, engines: int) -> float:
        """Return the seconds of work before each engine of a kind."""
        return (self.outlook(kind).work_s or 0.0) / max(engines, 1)

    def wants_another(self, kind: EngineKind, count: int, full: set[EngineKind], *, displaces: bool) -> bool:
        """Whether a kind is to get one more engine. A kind without any gets its first elsewhere, unless all it has are
        closed and work still runs on them."""
        coming = any(e.state in COMING for e in self.open_ones(kind))
        outlook = self.outlook(kind)
        if not count and (not outlook.running or outlook.work_s is None):
            return bool(outlook.running)
        return pays(outlook, count, full=kind in full, coming=coming, displaces=displaces)

    def displace(self, counts: dict[EngineKind, int], full: set[EngineKind]) -> None:
        """Replace an engine without work by one of a kind with much work, so that no GPU is idle. One at a time."""
        kinds = [kind for kind, count in counts.items() if self.wants_another(kind, count, full, displaces=True)]
        if not kinds or self.promised:
            return
        kind = max(kinds, key=lambda kind: self.ahead(kind, counts[kind]))
        idle = [e for e in self.engines.values() if self.is_idle(e) and self.is_unwanted(e) and e.serves != kind]
        if fitting := [e for e in idle if self.fits(kind, e.lease)]:
            self.let_go(max(fitting, key=lambda e: (e.idle_s, -e.id)), SPREADS)
            self.promised += 1

    # words

    def explain(self, order: list[WaitingJob]) -> None:
        """Add the reason why each of the first jobs waits."""
        waits = (job for job in order if job.id not in self.done)
        why: dict[EngineKind, tuple[Reason, str]] = {}
        for job in islice(waits, EXPLAINED):
            if not self.may_start(job):
                detail = f"as many jobs of group {job.group} run as [groups] in the configuration allows"
                self.commands.append(Wait(job.id, "group-limit", detail))
                continue
            if job.needs not in why:
                why[job.needs] = self.why(job.needs)
            self.commands.append(Wait(job.id, *why[job.needs]))

    def why(self, kind: EngineKind) -> tuple[Reason, str]:
        """Return the reason why a kind of work finds no place."""
        own = [e for e in self.engines.values() if e.serves == kind and e.state in LIVE]
        if misfit := self.misfit(kind):
            return "no-fit", misfit
        if any(e.state in COMING for e in own):
            return "waits-for-engine", "its engine is loading"
        if own:
            closed = next((e.closed for e in own if e.closed), "")
            return "waits-for-engine", f"its engine is closed: {closed}" if closed else "its engine is full"
        if kind in self.node.not_now:
            return "retry", self.node.not_now[kind]
        if any(e.state == "unloading" and self.fits(kind, e.lease) for e in self.engines.values()):
            return "waits-for-engine", "another engine is being unloaded"
        holders = [e for e in self.engines.values() if e.state in LIVE and e.id > 0 and self.fits(kind, e.lease)]
        held = [f"{self.node.names.get(e.lease, e.lease)} (engine e{e.id})" for e in holders]
        if not held:
            return "waits-for-engine", "no lease on this node is free; see `rwkvctl gpus`"
        several = "a free lease: " if len(held) > 1 else ""
        return "waits-for-engine", f"waiting for {several}{', '.join(held)}"

    def unload(self) -> None:
        """Unload engines that have had no work for too long, or whose GPU is wanted back and that have none now."""
        for engine in list(self.engines.values()):
            if self.is_idle(engine) and (engine.idle_s >= self.node.idle_unload_s or engine.closed):
                self.let_go(engine, engine.closed or f"no work for {self.node.idle_unload_s:.0f} s")
