"""Lanes give placement what it would choose from every waiting job, and say nothing else of any."""

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.job_lanes import JobLanes
from rwkv_daemon.rules.memory_fit import FreeLease
from rwkv_daemon.rules.placement import (
    EXPLAINED,
    PATIENCE_S,
    EngineFact,
    EngineKind,
    NodeResources,
    StartEngine,
    StartJob,
    Wait,
    WaitingJob,
    in_order,
    place,
)
from rwkv_daemon.rules.queued_job import QueuedJob
from rwkv_daemon.rules.scale_out import Outlook

KINDS = [EngineKind(weights, "fp32") for weights in "abc"]


def job(number: int, weights: str = "a", total: int = 10, **others: object) -> QueuedJob:
    known: dict[str, object] = {
        "id": number, "model": f"model-{weights}", "weights_path": "", "weights_sha256": weights, "benchmark": "b",
        "kind": "k", "numerics": "fp32", "priority": 0, "group_name": "", "total": total, "done": 0,
        "generation_key": "",
    }  # fmt: skip
    return QueuedJob(**known | others)  # type: ignore[arg-type]


def seconds(one: QueuedJob) -> float | None:
    """Work that was never measured where the total is odd."""
    return None if one.total % 2 else float(one.total)


def never(_job: QueuedJob) -> str:
    return ""


@dataclass
class Model:
    """What the lanes are to be: every waiting job with the time from which it waits, and what pauses cover."""

    jobs: dict[int, QueuedJob] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=dict)

    def waiting(self, clock: float, covered: set[str]) -> list[WaitingJob]:
        return [
            WaitingJob(j.id, EngineKind(j.weights_sha256, j.numerics), clock - self.since[j.id], j.priority,
                       j.group_name, seconds(j))
            for j in self.jobs.values() if j.model not in covered
        ]  # fmt: skip


ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.integers(1, 40), st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 2),
            st.sampled_from(["", "night"]),
        ),
        st.tuples(st.just("take"), st.integers(1, 40)),
        st.tuples(st.just("wait"), st.sampled_from([1.0, PATIENCE_S / 2, PATIENCE_S * 2])),
    ),
    max_size=60,
)  # fmt: skip


def played(actions: list[tuple[object, ...]]) -> tuple[JobLanes, Model, float]:
    lanes, model, clock = JobLanes(), Model(), 0.0
    for action in actions:
        match action:
            case ("put", int(number), str(weights), int(total), int(priority), str(group)):
                one = job(number, weights, total, priority=priority, group_name=group)
                lanes.put([one], seconds, clock)
                model.jobs[number] = one
                model.since.setdefault(number, clock)
            case ("take", int(number)):
                lanes.take([number])
                model.jobs.pop(number, None)
                model.since.pop(number, None)
            case ("wait", float(passed)):
                clock += passed
    for lane in lanes.lanes.values():
        lane.promote(clock)
    return lanes, model, clock


@given(ACTIONS)
def test_turns_are_the_order_of_placement(actions: list[tuple[object, ...]]) -> None:
    lanes, model, clock = played(actions)
    turns = [turn.job for turn in lanes.turns(lanes.open_lanes(), 1000)]
    assert turns == [one.id for one in in_order(model.waiting(clock, set()))]
    assert turns[:7] == [turn.job for turn in lanes.turns(lanes.open_lanes(), 7)]


@given(ACTIONS)
def test_sums_are_those_of_the_jobs(actions: list[tuple[object, ...]]) -> None:
    lanes, model, _ = played(actions)
    assert sum(lane.samples for lane in lanes.lanes.values()) == sum(one.total for one in model.jobs.values())
    known = [work for one in model.jobs.values() if (work := seconds(one)) is not None]
    assert sum(lane.known for lane in lanes.lanes.values()) == len(known)
    assert sum(lane.known_s for lane in lanes.lanes.values()) == sum(known)
    assert (len(lanes.jobs), lanes.id_sum) == (len(model.jobs), sum(model.jobs))
    assert all(lane.lengths for lane in lanes.lanes.values())


ENGINES = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.booleans()), max_size=4)


@given(ACTIONS, ENGINES, st.integers(0, 2), st.integers(0, 2), st.sets(st.sampled_from(["model-a", "model-b"])))
def test_placement_decides_on_the_front_as_it_would_on_every_job(
    actions: list[tuple[object, ...]], loaded: list[tuple[EngineKind, int, bool]], free: int, room: int,
    covered: set[str],
) -> None:  # fmt: skip
    lanes, model, clock = played(actions)
    lanes.shut(lambda one: "paused" if one.model in covered else "", (), clock, anew=True)
    engines = tuple(
        EngineFact(number, kind, f"gpu{number}", "ready", jobs, wants_work=wants)
        for number, (kind, jobs, wants) in enumerate(loaded, 1)
    )
    every = model.waiting(clock, covered)
    node = NodeResources(
        engines=engines, free=tuple(FreeLease(f"free{n}", 0) for n in range(free)), runners_per_engine=2,
        idle_unload_s=300.0, groups={"night": room}, outlook=outlooks(every),
    )  # fmt: skip
    rooms = Counter[EngineKind]()
    for engine in engines:
        rooms[engine.serves] += node.runners_per_engine
    by_id = {one.id: one for one in every}
    front = [by_id[number] for number in lanes.front(rooms, EXPLAINED)]
    assert place(front, node) == place(every, node)
    few = [by_id[number] for number in lanes.front(rooms, 0)]
    acts = [command for command in place(every, node) if not isinstance(command, Wait)]
    assert [command for command in place(few, node) if not isinstance(command, Wait)] == acts
    assert {type(act) for act in acts} <= {StartJob, StartEngine} | {type(act) for act in acts}


def outlooks(waiting: list[WaitingJob]) -> dict[EngineKind, Outlook]:
    found = {}
    for kind in {one.needs for one in waiting}:
        mine = [one for one in waiting if one.needs == kind]
        known = [one.work_s for one in mine if one.work_s is not None]
        found[kind] = Outlook(work_s=sum(known) if known else None, samples=len(mine),
                              priority=max(one.priority for one in mine))  # fmt: skip
    return found


def settled(lanes: JobLanes, busy: dict[str, int] | None = None, covered: set[int] | None = None) -> set[int]:
    """The jobs that may start, after a look."""

    def covers(one: QueuedJob) -> str:
        return "paused" if one.id in (covered or set()) else ""

    lanes.settle(busy or {}, covers, seconds, 0.0)
    return {number for lane in lanes.lanes.values() for number in lane.lengths}


def test_of_jobs_that_generate_the_same_the_most_urgent_and_oldest_waits_for_an_engine() -> None:
    lanes = JobLanes()
    lanes.put([job(1, generation_key="g"), job(2, generation_key="g"), job(3, generation_key="h")], seconds, 0.0)
    lanes.put([job(4, generation_key="g", priority=1)], seconds, 0.0)
    assert settled(lanes) == {3, 4}
    assert lanes.behind == {1: 4, 2: 4}
    lanes.take([4])
    assert settled(lanes) == {1, 3}
    lanes.take([1])
    assert settled(lanes) == {2, 3}
    assert lanes.behind == {}


def test_a_job_waits_behind_one_that_runs_and_generates_the_same() -> None:
    lanes = JobLanes()
    lanes.put([job(2, generation_key="g")], seconds, 0.0)
    assert settled(lanes, {"g": 1}) == set()
    lanes.put([job(3, generation_key="g")], seconds, 0.0)
    assert settled(lanes, {"g": 1}) == set()
    assert lanes.behind == {2: 1, 3: 1}
    assert settled(lanes) == {2}


def test_a_job_goes_before_one_of_the_same_work_that_may_not_start() -> None:
    lanes = JobLanes()
    lanes.put([job(1, "a", generation_key="g"), job(2, "b", generation_key="g")], seconds, 0.0)
    assert settled(lanes) == {1}
    lanes.shut(lambda one: "paused" if one.model == "model-a" else "", (), 0.0, anew=True)
    assert 2 in settled(lanes, covered={1})
    lanes.delay({2: 10.0}, seconds, 5.0)
    assert 2 not in settled(lanes, covered={1})
    lanes.delay({2: 10.0}, seconds, 10.0)
    assert 2 in settled(lanes, covered={1})


KEYS = st.sampled_from(["", "g", "h"])


@given(st.lists(st.tuples(st.integers(1, 8), KEYS, st.booleans(), st.sampled_from([{}, {"g": 99}])), max_size=30))
def test_each_waiting_job_is_in_its_lane_or_behind_another(
    steps: list[tuple[int, str, bool, dict[str, int]]]
) -> None:  # fmt: skip
    lanes, truth = JobLanes(), dict[int, QueuedJob]()
    busy: dict[str, int] = {}
    for number, key, comes, busy in steps:
        if comes:
            truth[number] = job(number, generation_key=key)
            lanes.put([truth[number]], seconds, 0.0)
        else:
            truth.pop(number, None)
            lanes.take([number])
        settled(lanes, busy)
    inside = settled(lanes, busy)
    assert inside | lanes.behind.keys() == truth.keys()
    assert not inside & lanes.behind.keys()
    by_key: dict[str, list[int]] = {}
    for one in truth.values():
        by_key.setdefault(one.generation_key, []).append(one.id)
    for key, numbers in by_key.items():
        wanted = set(numbers) if not key else set() if key in busy else {min(numbers)}
        assert inside & set(numbers) == wanted


def test_time_under_a_pause_is_no_waiting() -> None:
    lanes = JobLanes()
    lanes.put([job(1)], seconds, 0.0)
    lanes.shut(lambda _one: "paused", (), 10.0, anew=True)
    assert lanes.open_lanes() == []
    assert lanes.set_aside(5) == [(1, "paused")]
    lanes.shut(never, (), 5000.0, anew=True)
    assert lanes.waited_s(1, 5001.0) == 11.0


def test_a_job_that_is_tried_alone_may_start_where_the_others_of_its_lane_may_not() -> None:
    lanes = JobLanes()
    lanes.put([job(number) for number in (1, 2, 3)], seconds, 0.0)
    lanes.shut(lambda one: "" if one.id == 2 else "j2 is tried alone", [2], 0.0, anew=True)
    assert lanes.front({}, EXPLAINED) == [2]
    assert [number for number, _ in lanes.set_aside(5)] == [1, 3]


def test_a_new_estimate_changes_the_order() -> None:
    lanes = JobLanes()
    lanes.put([job(1, total=2), job(2, total=4)], seconds, 0.0)
    assert [turn.job for turn in lanes.turns(lanes.open_lanes(), 9)] == [2, 1]
    (lane,) = lanes.lanes.values()
    lane.reprice(lanes.jobs, lambda one: float(one.id == 1))
    assert [turn.job for turn in lanes.turns(lanes.open_lanes(), 9)] == [1, 2]
    assert lane.work_s == 1.0


def test_the_front_is_as_long_as_there_are_lanes_and_not_jobs() -> None:
    lanes = JobLanes()
    lanes.put((job(n, weights=f"w{n % 7}") for n in range(1, 10_001)), seconds, 0.0)
    assert len(lanes.front({EngineKind("w1", "fp32"): 4}, 0)) <= 7 + 4 + 4
    assert len(lanes.front({}, EXPLAINED)) <= EXPLAINED + 7
    lanes.put([replace(lanes.jobs[5], priority=3)], seconds, 0.0)
    assert lanes.front({}, 1)[-1] == 5 or 5 in lanes.front({}, 1)
