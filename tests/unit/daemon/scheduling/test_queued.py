"""The waiting jobs in memory follow what is committed, and what cannot be followed is read again, job by job."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.scheduling.job_queue import JobQueue, slim
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.events import Event


def row(number: int, state: str, **others: Any) -> JobRow:
    texts = {field.name: "" for field in fields(JobRow)}
    numbers = dict.fromkeys(("version", "benchmark_version", "seed", "repeats", "stages", "done", "stages_done",
                             "attempt", "restarts"), 0)  # fmt: skip
    known = {"id": number, "state": state, "weights_sha256": "aaa", "priority": 0, "total": 10, "row_limit": None}
    return JobRow(**texts | numbers | known | {"engine": None, "right_sum": 0.0} | others)  # type: ignore[arg-type]


def event(kind: str, job: str = "") -> Event:
    return Event(kind=kind, at="", job=job)


def read(*jobs: JobRow) -> JobQueue:
    queue = JobQueue(sizes={"aaa": 100}, unsized=False)
    queue.read_anew([slim(job) for job in jobs])
    return queue


def test_a_new_queue_is_read_and_looked_at_first() -> None:
    queue = JobQueue()
    assert queue.stale
    assert queue.is_due(3600.0)


def test_moves_are_followed_without_reading() -> None:
    queue = read(row(1, "queued"), row(2, "queued"))
    queue.committed([row(1, "starting"), row(3, "queued", priority=5)], [event("job.state"), event("job.state")])
    assert set(queue.jobs) == {2, 3}
    assert queue.jobs[3].priority == 5
    assert (queue.stale, queue.unread, queue.grown, queue.due) == (False, set(), False, True)


@pytest.mark.parametrize("kind", ["job.priority", "job.shared", "job.something new"])
def test_a_job_that_may_have_changed_is_read_again(kind: str) -> None:
    queue = read(row(1, "queued"), row(2, "queued"))
    queue.committed([], [event(kind, "j2")])
    assert (queue.stale, queue.unread) == (False, {2})


def test_after_a_dispatch_only_what_is_newer_is_read() -> None:
    queue = read(row(1, "queued"), row(7, "queued"))
    queue.committed([], [event("session")])
    assert (queue.stale, queue.grown, queue.newest) == (False, True, 7)


@pytest.mark.parametrize("kind", ["engine.state", "gpu.state", "job.score", "pause"])
def test_what_leaves_the_queue_alone_only_makes_it_due(kind: str) -> None:
    queue = read(row(1, "queued"))
    assert queue.is_due(0.0)
    queue.committed([], [event(kind, "j1" if kind.startswith("job") else "")])
    assert (queue.stale, queue.unread, queue.grown, queue.due) == (False, set(), False, True)


def test_a_commit_without_events_changes_nothing() -> None:
    queue = read(row(1, "queued"))
    assert queue.is_due(0.0)
    queue.committed([], [])
    assert (queue.stale, queue.due) == (False, False)
    assert not queue.is_due(3600.0)


def test_a_model_whose_size_is_not_known_yet_is_looked_up() -> None:
    queue = read()
    queue.committed([row(1, "queued", weights_sha256="new")], [event("job.state")])
    assert queue.unsized


def test_a_job_that_starts_and_comes_back_waits_anew_and_keeps_the_reason_it_came_with() -> None:
    queue = read(row(1, "queued"))
    begun = queue.lanes.waited_s(1, 0.0)
    assert queue.lanes.waited_s(1, 60.0) == begun + 60.0
    queue.told[1] = ("waits-for-engine", "its engine is full")
    queue.committed([row(1, "starting")], [event("job.state")])
    queue.committed([row(1, "queued", reason="retry", detail="again in 1 s")], [event("job.state")])
    assert queue.told[1] == ("retry", "again in 1 s")
    assert queue.lanes.waited_s(1, 0.0) <= begun


def test_a_job_that_moved_while_the_queue_was_read_is_where_it_moved_to() -> None:
    queue = read(row(1, "queued"))
    queue.meanwhile.clear()
    found = [slim(row(1, "queued")), slim(row(2, "queued"))]
    queue.committed([row(1, "starting"), row(3, "queued")], [event("job.state")])
    queue.read_anew(found)
    assert set(queue.jobs) == {2, 3}


STATES = st.sampled_from(["queued", "starting", "done", "held", "stopped"])


@given(st.lists(st.tuples(st.integers(1, 6), STATES), max_size=30))
def test_following_and_reading_come_to_the_same(moves: list[tuple[int, str]]) -> None:
    queue, truth = read(), dict[int, str]()
    for number, state in moves:
        truth[number] = state
        queue.committed([row(number, state)], [event("job.state")])
    waiting = {number for number, state in truth.items() if state == "queued"}
    assert set(queue.jobs) == waiting
    assert queue.is_as(len(waiting), sum(waiting))
    assert queue.told.keys() <= queue.jobs.keys()
