"""Placement: single situations as a table, then properties of one round, then whole histories."""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.memory_fit import GIB, SLOTS, FreeLease
from rwkv_daemon.rules.placement import (
    MAKES_WAY,
    PATIENCE_S,
    SPREADS,
    STARVED,
    CloseEngine,
    Command,
    EngineFact,
    EngineKind,
    NodeResources,
    StartEngine,
    StartJob,
    UnloadEngine,
    Wait,
    WaitingJob,
    in_order,
    place,
)
from rwkv_daemon.rules.scale_out import Outlook
from rwkvctl.protocol.states import EngineState

A, B, C = (EngineKind(f"/weights/{name}.pth", "fast") for name in "abc")
A32, B32 = (EngineKind(f"/weights/{name}.pth", "fp32") for name in "ab")
ALL = tuple(range(SLOTS))


def engine(
    number: int, serves: EngineKind, state: EngineState = "ready", jobs: int = 0, idle: float = 0, more: bool = True
) -> EngineFact:
    return EngineFact(number, serves, f"gpu-{number}", state, jobs, idle, more)


def queue(*needs: EngineKind, priority: int = 0) -> list[WaitingJob]:
    return [WaitingJob(number, kind, priority=priority) for number, kind in enumerate(needs, 1)]


def node(
    *engines: EngineFact, free: tuple[str, ...] = (), per_engine: int = 2, idle_unload_s: float = 600, **others: object
) -> NodeResources:
    leases = tuple(FreeLease(name) for name in free)
    return NodeResources(
        engines=engines, free=leases, runners_per_engine=per_engine, idle_unload_s=idle_unload_s, **others
    )  # type: ignore[arg-type]


def starts(serves: EngineKind, lease: str, job: int) -> StartEngine:
    return StartEngine(serves, lease, job, ALL)


def waits(job: int, why: str) -> Wait:
    return Wait(job, "waits-for-engine", why)


LOADS, FULL = "its engine is loading", "its engine is full"
NOTHING_FREE = "no lease on this node is free; see `rwkvctl gpus`"


@pytest.mark.parametrize(
    ("waiting", "situation", "expected"),
    [
        ([], node(), []),
        (queue(A), node(free=("g0", "g1")), [starts(A, "g0", 1), waits(1, LOADS)]),
        (
            queue(A, B),
            node(free=("g0", "g1")),
            [starts(A, "g0", 1), starts(B, "g1", 2), waits(1, LOADS), waits(2, LOADS)],
        ),
        (queue(A, A), node(free=("g0", "g1")), [starts(A, "g0", 1), waits(1, LOADS), waits(2, LOADS)]),
        (
            queue(A, A32),
            node(free=("g0", "g1")),
            [starts(A, "g0", 1), starts(A32, "g1", 2), waits(1, LOADS), waits(2, LOADS)],
        ),
        (queue(A), node(engine(1, A), free=("g0",)), [StartJob(1, 1)]),
        (queue(A, A), node(engine(1, A), engine(2, A)), [StartJob(1, 1), StartJob(2, 2)]),
        (queue(A), node(engine(1, A, jobs=2), engine(2, A, jobs=1)), [StartJob(1, 2)]),
        (queue(A), node(engine(1, A, jobs=2)), [waits(1, FULL)]),
        # a second engine beside a full one, where a lease is free
        (queue(A), node(engine(1, A, jobs=2), free=("g0",)), [starts(A, "g0", 0), waits(1, LOADS)]),
        (queue(A), node(engine(1, A, jobs=2), engine(2, A, "loading"), free=("g0",)), [waits(1, LOADS)]),
        (queue(A), node(engine(1, A, jobs=1, more=False)), [waits(1, FULL)]),
        (queue(A), node(engine(1, A, jobs=0, more=False)), [StartJob(1, 1)]),  # nobody feeds it, so it has room
        (queue(A), node(engine(1, A, "loading"), free=("g0",)), [waits(1, LOADS)]),
        (queue(A), node(engine(1, B, "unloading")), [waits(1, "another engine is being unloaded")]),
        (queue(A), node(engine(1, B, jobs=1)), [waits(1, "waiting for gpu-1 (engine e1)")]),
        (queue(A), node(), [waits(1, NOTHING_FREE)]),
        (
            queue(A),
            node(engine(1, B, idle=5), engine(2, C, idle=50)),
            [UnloadEngine(2, "a waiting job needs its place"), waits(1, "another engine is being unloaded")],
        ),
        ([], node(engine(1, A, idle=599), engine(2, B, idle=600)), [UnloadEngine(2, "no work for 600 s")]),
        ([], node(engine(1, A, jobs=1, idle=999)), []),
        (queue(A), node(engine(1, A, idle=999)), [StartJob(1, 1)]),
        (
            queue(A),
            node(free=("g0",), not_now={A: "its engine failed"}),
            [Wait(1, "retry", "its engine failed")],
        ),
    ],
)
def test_one_round(waiting: list[WaitingJob], situation: NodeResources, expected: list[Command]) -> None:
    assert place(waiting, situation) == expected


def test_a_warm_engine_serves_its_own_jobs_before_it_makes_way_for_equals() -> None:
    assert place(queue(A, B), node(engine(1, B))) == [StartJob(2, 1), waits(1, "waiting for gpu-1 (engine e1)")]


def test_a_more_urgent_job_takes_the_place_of_a_warm_engine_without_work() -> None:
    commands = place([WaitingJob(1, A, priority=1), WaitingJob(2, B)], node(engine(1, B)))
    assert commands[0] == UnloadEngine(1, "a waiting job needs its place")
    assert not any(isinstance(command, StartJob) for command in commands)


def test_longest_expected_work_goes_first_within_a_priority() -> None:
    jobs = [
        WaitingJob(1, A, work_s=5.0),
        WaitingJob(2, A, work_s=50.0),
        WaitingJob(3, A, work_s=1.0, priority=1),
        WaitingJob(4, A),
        WaitingJob(5, A, work_s=2.0, waited_s=PATIENCE_S + 1),
        WaitingJob(6, A, work_s=1.0, goes_on=True),
    ]
    assert [job.id for job in in_order(jobs)] == [3, 6, 5, 4, 2, 1]


def test_free_leases_go_to_the_kinds_with_most_work_ahead_of_each_engine() -> None:
    outlook = {
        A: Outlook(work_s=1000.0, samples=10_000, running=1, load_s=10.0),
        B: Outlook(work_s=400.0, samples=10_000, running=1, load_s=10.0),
        C: Outlook(work_s=15.0, samples=10_000, running=1, load_s=10.0),
    }
    engines = (engine(1, A, jobs=1), engine(2, B, jobs=1), engine(3, C, jobs=1))
    commands = place([], node(*engines, free=("g0", "g1", "g2", "g3"), outlook=outlook))
    assert Counter(command.serves for command in commands if isinstance(command, StartEngine)) == {A: 3, B: 1}


def test_no_engine_is_started_that_would_load_for_longer_than_the_work_takes() -> None:
    outlook = {A: Outlook(work_s=15.0, samples=10_000, running=1, load_s=10.0)}
    assert place([], node(engine(1, A, jobs=1), free=("g0",), outlook=outlook)) == []


def test_a_job_of_few_samples_is_not_split() -> None:
    outlook = {A: Outlook(work_s=9999.0, samples=100, running=1, load_s=1.0)}
    assert place([], node(engine(1, A, jobs=1), free=("g0",), outlook=outlook)) == []


def test_an_idle_engine_gives_its_place_to_work_that_ends_much_sooner_with_it() -> None:
    outlook = {A: Outlook(work_s=1000.0, samples=10_000, running=1, load_s=10.0)}
    assert place([], node(engine(1, A, jobs=1), engine(2, B), outlook=outlook)) == [UnloadEngine(2, SPREADS)]


def test_one_idle_engine_a_round_gives_its_place_whatever_the_priorities() -> None:
    work = {kind: Outlook(work_s=1000.0, samples=10_000, running=1, load_s=10.0) for kind in (A, B)}
    outlook = {A: replace(work[A], priority=5), B: work[B]}
    idle = (engine(3, C), engine(4, C))
    situation = node(engine(1, A, jobs=1), engine(2, B, jobs=1), *idle, outlook=outlook)
    assert place([], situation) == [UnloadEngine(3, SPREADS)]


def beside_gpus(*engines: EngineFact, **others: object) -> NodeResources:
    """A node with one GPU, and a CPU on which `fp32` alone may run."""
    return node(*engines, only={"cpu:0": "fp32"}, leases={"gpu-1": 80 * GIB, "cpu:0": 0}, **others)


def test_an_engine_on_the_cpu_makes_no_way_for_work_that_only_a_gpu_may_do() -> None:
    on_cpu = replace(engine(2, A32), lease="cpu:0")
    work = {A: Outlook(work_s=1000.0, samples=10_000, running=1, load_s=10.0)}
    assert place([], beside_gpus(engine(1, A, jobs=1), on_cpu, outlook=work)) == []
    assert place(queue(A), beside_gpus(on_cpu)) == [waits(1, NOTHING_FREE)]
    assert place(queue(A), beside_gpus(replace(on_cpu, state="unloading"))) == [waits(1, NOTHING_FREE)]
    both = beside_gpus(engine(1, B, jobs=1), replace(on_cpu, jobs=1), names={"gpu-1": "GPU 0"})
    assert place(queue(A), both) == [waits(1, "waiting for GPU 0 (engine e1)")]
    assert place(queue(B32), beside_gpus(on_cpu))[0] == UnloadEngine(2, "a waiting job needs its place")


def test_a_free_cpu_keeps_no_gpu_from_a_job_that_has_waited_long() -> None:
    free = (FreeLease("cpu:0", numerics="fp32"),)
    situation = replace(beside_gpus(engine(1, B, jobs=1)), free=free)
    assert place([WaitingJob(1, A, waited_s=PATIENCE_S + 1)], situation)[0] == CloseEngine(1, STARVED)


def test_a_kind_with_several_engines_gives_one_to_a_kind_that_has_none() -> None:
    engines = (engine(1, A, jobs=2), engine(2, A, jobs=1))
    commands = place([WaitingJob(1, B), WaitingJob(2, A)], node(*engines))
    assert commands[:1] == [CloseEngine(2, MAKES_WAY)]
    assert not any(isinstance(command, StartJob) for command in commands), "the closed one gets no new job"
    drained = (engine(1, A, jobs=2), engine(2, A, jobs=0))
    assert UnloadEngine(2, MAKES_WAY) in place([WaitingJob(1, B), WaitingJob(2, A)], node(*drained))


def test_a_more_urgent_kind_keeps_its_engines() -> None:
    outlook = {A: Outlook(running=2, priority=5)}
    engines = (engine(1, A, jobs=2), engine(2, A, jobs=1))
    assert place(queue(B), node(*engines, outlook=outlook)) == [
        waits(1, "waiting for a free lease: gpu-1 (engine e1), gpu-2 (engine e2)")
    ]


def test_an_engine_on_a_gpu_that_is_drained_gets_nothing_new_and_goes_when_it_is_idle() -> None:
    closed = replace(engine(1, A), closed="its GPU is draining")
    busy = replace(closed, jobs=1)
    assert place(queue(A), node(busy)) == [waits(1, "its engine is closed: its GPU is draining")]
    assert UnloadEngine(1, "its GPU is draining") in place([], node(closed))
    # what runs there goes on beside, where a lease is free
    commands = place([], node(busy, free=("g0",), outlook={A: Outlook(running=1)}))
    assert commands == [starts(A, "g0", 0)]


def test_groups_limit_what_runs_at_once() -> None:
    jobs = [WaitingJob(n, A, group="night") for n in (1, 2)] + [WaitingJob(3, A)]
    commands = place(jobs, node(engine(1, A), per_engine=4, groups={"night": 1}))
    detail = "as many jobs of group night run as [groups] in the configuration allows"
    assert commands == [StartJob(1, 1), StartJob(3, 1), Wait(2, "group-limit", detail)]


def test_no_engine_is_started_for_jobs_of_a_full_group() -> None:
    commands = place([WaitingJob(1, A, group="night")], node(free=("g0",), groups={"night": 0}))
    assert [command.reason for command in commands if isinstance(command, Wait)] == ["group-limit"]
    assert len(commands) == 1


def test_a_model_that_is_too_large_says_so_with_figures_and_disturbs_nobody() -> None:
    situation = node(
        engine(1, B, idle=9), outlook={A: Outlook(need_bytes=30 * GIB)}, leases={"gpu-1": 24 * GIB, "gpu-2": 8 * GIB}
    )
    detail = "needs at least 30.0 GiB, and the largest GPU here has 24.0 GiB"
    assert place(queue(A), situation) == [Wait(1, "no-fit", detail)]


def test_a_large_model_goes_where_it_fits_and_a_small_one_leaves_that_place_free() -> None:
    free = (FreeLease("small", bytes=8 * GIB), FreeLease("large", bytes=80 * GIB))
    situation = replace(node(), free=free, outlook={A: Outlook(need_bytes=4 * GIB), B: Outlook(need_bytes=40 * GIB)})
    started = [c for c in place(queue(A, B), situation) if isinstance(c, StartEngine)]
    assert [(c.serves, c.lease) for c in started] == [(A, "small"), (B, "large")]


def test_small_engines_share_a_gpu_only_where_that_is_configured() -> None:
    free = (FreeLease("g0", bytes=80 * GIB),)
    outlook = {A: Outlook(need_bytes=4 * GIB), B: Outlook(need_bytes=30 * GIB), C: Outlook(need_bytes=4 * GIB)}
    alone = replace(node(), free=free, outlook=outlook)
    assert [c.slots for c in place(queue(A, B), alone) if isinstance(c, StartEngine)] == [ALL]
    shared = [c for c in place(queue(A, B, C), replace(alone, share_gpus=4)) if isinstance(c, StartEngine)]
    assert [(c.serves, c.slots) for c in shared] == [(A, (0, 1)), (B, (2, 3, 4, 5)), (C, (6, 7))]


KINDS = st.sampled_from([A, B, C, A32])
STATES: st.SearchStrategy[EngineState] = st.sampled_from(["starting", "loading", "ready", "ready", "unloading"])


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[WaitingJob], NodeResources]:
    engines = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        state = draw(STATES)
        jobs = draw(st.integers(0, 3)) if state == "ready" else 0
        found = engine(number, draw(KINDS), state, jobs, draw(st.floats(0, 1000)), draw(st.booleans()))
        engines.append(replace(found, closed=draw(st.sampled_from(["", "", "", "drained"]))))
    free = tuple(
        FreeLease(f"free-{n}", bytes=draw(st.sampled_from([0, 8 * GIB, 80 * GIB])))
        for n in range(draw(st.integers(0, 3)))
    )
    waiting = [
        WaitingJob(
            number, draw(KINDS), priority=draw(st.integers(0, 2)), waited_s=draw(st.sampled_from([0.0, 1e4])),
            work_s=draw(st.none() | st.floats(0, 1e4)), group=draw(st.sampled_from(["", "night"])),
        )
        for number in range(1, draw(st.integers(0, 8)) + 1)
    ]  # fmt: skip
    outlook = {
        kind: Outlook(
            work_s=draw(st.none() | st.floats(0, 1e5)), samples=draw(st.integers(0, 10_000)),
            running=draw(st.integers(0, 2)),
            priority=draw(st.integers(0, 2)), need_bytes=draw(st.sampled_from([0, GIB, 30 * GIB])),
        )
        for kind in draw(st.sets(KINDS))
    }  # fmt: skip
    found_node = node(*engines, per_engine=draw(st.integers(1, 3)), groups={"night": draw(st.integers(0, 2))})
    share = draw(st.integers(1, 4))
    return waiting, replace(found_node, free=free, outlook=outlook, share_gpus=share)


@given(situations())
def test_what_holds_of_every_round(drawn: tuple[list[WaitingJob], NodeResources]) -> None:
    waiting, situation = drawn
    commands = place(waiting, situation)
    engines = {e.id: e for e in situation.engines}
    started = [c for c in commands if isinstance(c, StartJob)]
    opened = [c for c in commands if isinstance(c, StartEngine)]
    closed = [c.engine for c in commands if isinstance(c, UnloadEngine)]

    by_job = Counter(c.job for c in commands if isinstance(c, (StartJob, Wait)))
    assert by_job == Counter(job.id for job in waiting), "every job is answered once"

    given_away = Counter((c.lease, slot) for c in opened for slot in c.slots)
    assert all(count == 1 for count in given_away.values()), "no part of a lease twice"
    sizes = {lease.id: lease.bytes for lease in situation.free}
    assert {c.lease for c in opened} <= sizes.keys()
    for lease, size in sizes.items():
        needs_of = [situation.outlook.get(c.serves, Outlook()).need_bytes for c in opened if c.lease == lease]
        assert not size or sum(needs_of) <= size, "no over-commitment"
        assert len(needs_of) <= situation.share_gpus

    needs = {job.id: job for job in waiting}
    load = Counter({e.id: e.jobs for e in situation.engines})
    for start in started:
        found = engines[start.engine]
        assert found.state == "ready"
        assert not found.closed
        assert found.serves == needs[start.job].needs
        assert start.engine not in closed
        assert not load[start.engine] or (found.wants_work and load[start.engine] < situation.runners_per_engine)
        load[start.engine] += 1
    in_group = sum(needs[start.job].group == "night" for start in started)
    assert in_group <= situation.groups["night"]

    for kind in {job.needs for job in waiting}:
        own = [job for job in in_order(waiting) if job.needs == kind and job.group == ""]
        began = [job.id in {start.job for start in started} for job in own]
        assert began == sorted(began, reverse=True), "no job overtakes one of its kind that goes before it"

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
            case StartEngine(serves, lease, _, _):
                self.loads += 1
                self.engines[self.loads] = EngineFact(self.loads, serves, lease, "starting", 0)
                self.until[self.loads] = self.clock + self.load
            case UnloadEngine(number, _):
                self.engines[number] = replace(self.engines[number], state="unloading")
                self.until[number] = self.clock + self.load
            case CloseEngine() | Wait():
                pass


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

    def node(jobs: int) -> NodeResources:
        engine = EngineFact(1, a, "cpu:0", "ready", jobs)
        return NodeResources(engines=(engine,), free=(), runners_per_engine=4, idle_unload_s=600.0)

    fresh, late = WaitingJob(1, b, 10.0), WaitingJob(1, b, 10_000.0)
    assert StartJob(2, 1) in place([fresh, WaitingJob(2, a)], node(1))
    closed = place([late, WaitingJob(2, a)], node(1))
    assert not [command for command in closed if isinstance(command, StartJob)]
    assert UnloadEngine(1, "a waiting job needs its place") in place([late, WaitingJob(2, a)], node(0))
