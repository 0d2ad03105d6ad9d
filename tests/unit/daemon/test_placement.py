"""Placement: single situations as a table, then properties of one round, then whole histories."""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_daemon.placement import (
    Command,
    EngineFact,
    EngineKind,
    Node,
    StartEngine,
    StartJob,
    UnloadEngine,
    Wait,
    WaitingJob,
    place,
)
from rwkvctl.protocol.states import EngineState

A, B, C = (EngineKind(f"/weights/{name}.pth", "fast") for name in "abc")
A32 = EngineKind("/weights/a.pth", "fp32")


def engine(
    number: int, serves: EngineKind, state: EngineState = "ready", jobs: int = 0, idle: float = 0, more: bool = True
) -> EngineFact:
    return EngineFact(number, serves, f"gpu-{number}", state, jobs, idle, more)


def queue(*needs: EngineKind) -> list[WaitingJob]:
    return [WaitingJob(number, kind) for number, kind in enumerate(needs, 1)]


def node(*engines: EngineFact, free: tuple[str, ...] = (), per_engine: int = 2, idle_unload_s: float = 600) -> Node:
    return Node(engines=engines, free_leases=free, runners_per_engine=per_engine, idle_unload_s=idle_unload_s)


def waits(job: int, why: str) -> Wait:
    return Wait(job, "waits-for-engine", why)


@pytest.mark.parametrize(
    ("waiting", "situation", "expected"),
    [
        ([], node(), []),
        (queue(A), node(free=("g0", "g1")), [StartEngine(A, "g0", 1)]),
        (queue(A, B), node(free=("g0", "g1")), [StartEngine(A, "g0", 1), StartEngine(B, "g1", 2)]),
        (queue(A, A), node(free=("g0", "g1")), [StartEngine(A, "g0", 1), waits(2, "its engine is loading")]),
        (queue(A, A32), node(free=("g0", "g1")), [StartEngine(A, "g0", 1), StartEngine(A32, "g1", 2)]),
        (queue(A), node(engine(1, A), free=("g0",)), [StartJob(1, 1)]),
        (queue(A, A), node(engine(1, A), engine(2, A)), [StartJob(1, 1), StartJob(2, 2)]),
        (queue(A), node(engine(1, A, jobs=2), engine(2, A, jobs=1)), [StartJob(1, 2)]),
        (queue(A), node(engine(1, A, jobs=2), free=("g0",)), [waits(1, "its engine is full")]),
        (queue(A), node(engine(1, A, jobs=1, more=False)), [waits(1, "its engine is full")]),
        (queue(A), node(engine(1, A, jobs=0, more=False)), [StartJob(1, 1)]),  # nobody feeds it, so it has room
        (queue(A), node(engine(1, A, "loading"), free=("g0",)), [waits(1, "its engine is loading")]),
        (queue(A), node(engine(1, B, "unloading")), [waits(1, "another engine is being unloaded")]),
        (queue(A), node(engine(1, B, jobs=1)), [waits(1, "no free lease: gpu-1 by e1")]),
        (queue(A), node(), [waits(1, "no free lease: none on this node")]),
        (
            queue(A),
            node(engine(1, B, idle=5), engine(2, C, idle=50)),
            [UnloadEngine(2, "a waiting job needs its place")],
        ),
        ([], node(engine(1, A, idle=599), engine(2, B, idle=600)), [UnloadEngine(2, "no work for 600 s")]),
        ([], node(engine(1, A, jobs=1, idle=999)), []),
        (queue(A), node(engine(1, A, idle=999)), [StartJob(1, 1)]),
    ],
)
def test_one_round(waiting: list[WaitingJob], situation: Node, expected: list[Command]) -> None:
    assert place(waiting, situation) == expected


def test_an_earlier_job_takes_the_place_of_an_idle_engine_before_a_later_job_uses_it() -> None:
    commands = place(queue(A, B), node(engine(1, B)))
    assert commands == [
        UnloadEngine(1, "a waiting job needs its place"),
        waits(2, "another engine is being unloaded"),
    ]


KINDS = st.sampled_from([A, B, C, A32])
STATES: st.SearchStrategy[EngineState] = st.sampled_from(["starting", "loading", "ready", "ready", "unloading"])


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[WaitingJob], Node]:
    engines = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        state = draw(STATES)
        jobs = draw(st.integers(0, 3)) if state == "ready" else 0
        engines.append(engine(number, draw(KINDS), state, jobs, draw(st.floats(0, 1000)), draw(st.booleans())))
    free = tuple(f"free-{number}" for number in range(draw(st.integers(0, 3))))
    waiting = queue(*draw(st.lists(KINDS, max_size=8)))
    return waiting, node(*engines, free=free, per_engine=draw(st.integers(1, 3)))


@given(situations())
def test_what_holds_of_every_round(drawn: tuple[list[WaitingJob], Node]) -> None:
    waiting, situation = drawn
    commands = place(waiting, situation)
    engines = {e.id: e for e in situation.engines}
    started = [c for c in commands if isinstance(c, StartJob)]
    opened = [c for c in commands if isinstance(c, StartEngine)]
    closed = [c.engine for c in commands if isinstance(c, UnloadEngine)]

    by_job = Counter(c.job for c in commands if not isinstance(c, UnloadEngine))
    assert all(count == 1 for count in by_job.values()), "at most one command a job"
    for_jobs = sum(isinstance(c, UnloadEngine) and c.why.startswith("a waiting job") for c in commands)
    assert len(by_job) + for_jobs == len(waiting), "every job is answered"

    assert len({c.lease for c in opened}) == len(opened), "no lease twice"
    assert {c.lease for c in opened} <= set(situation.free_leases)
    coming = Counter(e.serves for e in situation.engines if e.state in {"starting", "loading"})
    for kind in {c.serves for c in opened}:
        assert [c.serves for c in opened].count(kind) == 1
        assert not coming[kind], "never a second engine of a kind while one is coming"
        assert not any(e.serves == kind and e.state == "ready" and e.id not in closed for e in situation.engines)

    needs = {job.id: job.needs for job in waiting}
    load = Counter({e.id: e.jobs for e in situation.engines})
    for start in started:
        found = engines[start.engine]
        assert found.state == "ready"
        assert found.serves == needs[start.job]
        assert start.engine not in closed
        assert not load[start.engine] or (found.wants_work and load[start.engine] < situation.runners_per_engine)
        load[start.engine] += 1
    for kind in set(needs.values()):
        own = [isinstance(c, StartJob) for c in commands if not isinstance(c, UnloadEngine) and needs[c.job] == kind]
        assert own == sorted(own, reverse=True), "no job overtakes an earlier one of its kind"

    assert len(set(closed)) == len(closed)
    assert all(engines[number].state == "ready" and not load[number] for number in closed), "unloaded without jobs only"


@dataclass
class World:
    """A node that carries out commands: engines take time to load and to go, jobs take time to run."""

    waiting: list[WaitingJob]
    leases: int
    per_engine: int
    load: int
    run: int
    clock: int = 0
    engines: dict[int, EngineFact] = field(default_factory=dict)
    until: dict[int, int] = field(default_factory=dict)
    jobs: dict[int, tuple[int, int]] = field(default_factory=dict)
    ran: list[int] = field(default_factory=list)
    loads: int = 0

    def tick(self) -> None:
        """One round: time passes, then the placement decides and its commands are carried out."""
        self.clock += 1
        for job, (number, end) in list(self.jobs.items()):
            if end <= self.clock:
                del self.jobs[job]
                self.ran.append(job)
                self.engines[number] = replace(self.engines[number], jobs=self.engines[number].jobs - 1)
        for number, found in list(self.engines.items()):
            if found.state in {"starting", "loading"} and self.until[number] <= self.clock:
                self.engines[number] = replace(found, state="ready")
            elif found.state == "unloading" and self.until[number] <= self.clock:
                del self.engines[number]
        taken = {e.lease for e in self.engines.values()}
        free = tuple(lease for lease in (f"g{n}" for n in range(self.leases)) if lease not in taken)
        for command in place(self.waiting, node(*self.engines.values(), free=free, per_engine=self.per_engine)):
            self.perform(command)
        assert len({e.lease for e in self.engines.values()}) == len(self.engines) <= self.leases

    def perform(self, command: Command) -> None:
        match command:
            case StartJob(job, number):
                self.waiting = [w for w in self.waiting if w.id != job]
                self.jobs[job] = (number, self.clock + self.run)
                self.engines[number] = replace(self.engines[number], jobs=self.engines[number].jobs + 1)
            case StartEngine(serves, lease, _):
                self.loads += 1
                self.engines[self.loads] = EngineFact(self.loads, serves, lease, "starting", 0)
                self.until[self.loads] = self.clock + self.load
            case UnloadEngine(number, _):
                self.engines[number] = replace(self.engines[number], state="unloading")
                self.until[number] = self.clock + self.load
            case Wait():
                pass


@settings(max_examples=150)
@given(st.lists(KINDS, max_size=12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_every_job_runs_in_the_end(needs: list[EngineKind], leases: int, per_engine: int, load: int, run: int) -> None:
    world = World(queue(*needs), leases, per_engine, load, run)
    for _ in range((len(needs) + 1) * (2 * load + run + 3)):
        world.tick()
    assert sorted(world.ran) == [job.id for job in queue(*needs)]
    for kind in set(needs):
        own = [job.id for job in queue(*needs) if job.needs == kind]
        assert sorted(own) == own


def test_an_engine_with_room_serves_all_its_jobs_before_it_makes_place_for_another() -> None:
    world = World(queue(A, B, A, B, A), leases=1, per_engine=3, load=2, run=3)
    while len(world.ran) < 5:
        world.tick()
        assert world.clock < 100
    assert world.loads == 2


def test_a_steady_flow_of_other_jobs_cannot_starve_one_for_ever() -> None:
    """New jobs of A keep coming; the job of B waits too long; A's engine is closed to new jobs, then unloaded."""
    a, b = EngineKind("a", "fp32"), EngineKind("b", "fp32")

    def node(jobs: int) -> Node:
        engine = EngineFact(1, a, "cpu:0", "ready", jobs)
        return Node(engines=(engine,), free_leases=(), runners_per_engine=4, idle_unload_s=600.0)

    fresh, late = WaitingJob(1, b, 10.0), WaitingJob(1, b, 10_000.0)
    assert StartJob(2, 1) in place([fresh, WaitingJob(2, a)], node(1))
    closed = place([late, WaitingJob(2, a)], node(1))
    assert not [command for command in closed if isinstance(command, StartJob)]
    assert UnloadEngine(1, "a waiting job needs its place") in place([late, WaitingJob(2, a)], node(0))
