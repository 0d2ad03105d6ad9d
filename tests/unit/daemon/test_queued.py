"""The waiting jobs in memory follow what is committed, and are read again whenever that cannot be followed."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.queued import Queue, slim
from rwkv_daemon.situation import one_each
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.messages import Event


def row(number: int, state: str, **others: Any) -> JobRow:
    texts = {field.name: "" for field in fields(JobRow)}
    numbers = dict.fromkeys(("version", "benchmark_version", "seed", "repeats", "stages", "done", "stages_done",
                             "attempt", "restarts"), 0)  # fmt: skip
    known = {"id": number, "state": state, "weights_sha256": "aaa", "priority": 0, "total": 10, "row_limit": None}
    return JobRow(**texts | numbers | known | {"engine": None, "right_sum": 0.0} | others)  # type: ignore[arg-type]


def event(kind: str) -> Event:
    return Event(kind=kind, at="")


def read(*jobs: JobRow) -> Queue:
    queue = Queue()
    queue.read([slim(job) for job in jobs], {"aaa": 100})
    return queue


def test_a_new_queue_is_read_and_looked_at_first() -> None:
    queue = Queue()
    assert queue.stale
    assert queue.is_due(3600.0)


def test_moves_are_followed_without_reading() -> None:
    queue = read(row(1, "queued"), row(2, "queued"))
    queue.committed([row(1, "starting"), row(3, "queued", priority=5)], [event("job.state"), event("job.state")])
    assert set(queue.jobs) == {2, 3}
    assert queue.jobs[3].priority == 5
    assert (queue.stale, queue.due) == (False, True)


@pytest.mark.parametrize("kind", ["session", "job.priority", "weights", "pause", "something new"])
def test_what_may_have_changed_jobs_makes_it_read_again(kind: str) -> None:
    queue = read(row(1, "queued"))
    queue.committed([], [event(kind)])
    assert queue.stale


@pytest.mark.parametrize("kind", ["engine.state", "gpu.state", "job.score"])
def test_what_leaves_the_queue_alone_only_makes_it_due(kind: str) -> None:
    queue = read(row(1, "queued"))
    assert queue.is_due(0.0)
    queue.committed([], [event(kind)])
    assert (queue.stale, queue.due) == (False, True)


def test_a_commit_without_events_changes_nothing() -> None:
    queue = read(row(1, "queued"))
    assert queue.is_due(0.0)
    queue.committed([], [])
    assert (queue.stale, queue.due) == (False, False)
    assert not queue.is_due(3600.0)


def test_a_model_whose_size_is_not_known_yet_is_looked_up() -> None:
    queue = read()
    queue.committed([row(1, "queued", weights_sha256="new")], [event("job.state")])
    assert queue.stale


def test_a_job_that_starts_and_comes_back_waits_anew_and_keeps_the_reason_it_came_with() -> None:
    queue = read(row(1, "queued"))
    assert queue.waited_s(1, 100.0) == 0.0
    assert queue.waited_s(1, 160.0) == 60.0
    queue.told[1] = ("waits-for-engine", "its engine is full")
    queue.committed([row(1, "starting")], [event("job.state")])
    queue.committed([row(1, "queued", reason="retry", detail="again in 1 s")], [event("job.state")])
    assert queue.waited_s(1, 200.0) == 0.0
    assert queue.told[1] == ("retry", "again in 1 s")


STATES = st.sampled_from(["queued", "starting", "done", "held", "stopped"])


@given(st.lists(st.tuples(st.integers(1, 6), STATES), max_size=30))
def test_following_and_reading_come_to_the_same(moves: list[tuple[int, str]]) -> None:
    queue, truth = read(), dict[int, str]()
    for number, state in moves:
        truth[number] = state
        queue.committed([row(number, state)], [event("job.state")])
    assert set(queue.jobs) == {number for number, state in truth.items() if state == "queued"}
    assert queue.told.keys() <= queue.jobs.keys()


@pytest.mark.parametrize("stages_done", [3, 10])
def test_a_job_waits_for_the_completions_of_one_that_runs_until_its_runner_is_through(stages_done: int) -> None:
    """Also when all of them are written: another generation would begin in the moment before they are taken over."""
    first = row(1, "generating", generation_key="g", stages=1, stages_done=stages_done)
    second, third = slim(row(2, "queued", generation_key="g")), slim(row(3, "queued", generation_key="h"))
    may, waits = one_each([second, third], {1: first})
    assert may == [third]
    assert [(wait.job, "generates the same" in wait.detail) for wait in waits] == [(2, True)]
    assert one_each([second], {}) == ([second], [])
