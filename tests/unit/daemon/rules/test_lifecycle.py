"""The table of a job's life, read the other way round: by state, what may happen and where it leads."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.lifecycle import TABLE, IllegalTransitionError, Transition, after, allows, stage
from rwkvctl.protocol.states import ACTIVE, TERMINAL, JobState

STATES: tuple[JobState, ...] = get_args(JobState)
HAPPENINGS: tuple[Transition, ...] = get_args(Transition)

RUNNING = {
    "retry": "queued", "fail": "failed", "stop": "stopping", "finish": "done", "hold": "held", "pause": "paused",
}  # fmt: skip
DELETE = {"delete": "deleted"}
IDLE = DELETE | {"resume": "queued", "regrade": "grading", "rejudge": "judging"}
LIFE: dict[JobState, dict[str, str]] = {
    "held": IDLE | {"release": "queued", "same": "done", "stop": "stopped"},
    "queued": DELETE | {"hold": "held", "pause": "paused", "place": "starting", "stop": "stopped", "fail": "failed"},
    "starting": RUNNING | {"yield": "queued", "generate": "generating", "grade": "grading", "judge": "judging"},
    "generating": RUNNING | {"yield": "queued", "grade": "grading", "judge": "judging"},
    "grading": RUNNING | {"yield": "queued", "judge": "judging", "regrade": "grading"},
    "judging": RUNNING,
    "paused": IDLE | {"hold": "held", "stop": "stopped"},
    "stopping": {"ended": "stopped", "finish": "done"},
    "stopped": IDLE,
    "failed": IDLE,
    "done": DELETE | {"regrade": "grading", "rejudge": "judging"},
    "deleted": {"undelete": "stopped", "undelete done": "done"},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("transition", HAPPENINGS)
def test_every_pair_leads_where_the_life_of_a_job_says_or_is_refused(state: JobState, transition: Transition) -> None:
    expected = LIFE[state].get(transition)
    assert allows(state, transition) is (expected is not None)
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"'{transition}' cannot happen to a job that is {state}"):
            after(state, transition)
    else:
        assert after(state, transition) == expected


def test_the_table_names_only_known_words() -> None:
    assert set(TABLE) == set(HAPPENINGS)
    assert {state for row in TABLE.values() for pair in row.items() for state in pair} <= set(STATES)
    assert set(LIFE) == set(STATES)


@given(st.sampled_from(["held", "queued"]), st.lists(st.sampled_from(HAPPENINGS), max_size=40))
def test_any_order_of_happenings_ends_in_a_legal_state(first: JobState, happenings: list[Transition]) -> None:
    state = first
    for transition in happenings:
        before = state
        if allows(state, transition):
            state = after(state, transition)
        assert state in STATES
        assert state != before or transition not in LIFE[before] or transition == "regrade"
        if before in TERMINAL and state != before:
            assert transition in {"resume", "regrade", "rejudge", "delete"}
            assert before != "done" or transition != "resume"


def test_a_terminal_job_is_left_only_when_the_operator_asks_and_a_done_one_generates_nothing_more() -> None:
    assert {state: set(LIFE[state]) for state in TERMINAL} == {
        "done": {"delete", "regrade", "rejudge"},
        "failed": {"delete", "resume", "regrade", "rejudge"},
        "stopped": {"delete", "resume", "regrade", "rejudge"},
    }


def test_what_was_put_aside_comes_back_only_by_a_word_of_its_own() -> None:
    """A paused job is not released by the daemon; a wider pause leaves a job in the queue, where it starts again."""
    assert "release" not in LIFE["paused"]
    assert set(TABLE["yield"].values()) == {"queued"}
    for state, after_pause in TABLE["pause"].items():
        assert after_pause == "paused", state
        assert after("paused", "resume") == "queued"


@given(st.sampled_from(sorted(TABLE["pause"])), st.lists(st.sampled_from(["hold", "release", "pause", "resume"])))
def test_putting_aside_and_taking_back_loses_no_job(first: JobState, happenings: list[Transition]) -> None:
    """However often an operator pauses and holds, one `resume` (and nothing lost) brings the job back."""
    state = first
    for transition in happenings:
        state = after(state, transition) if allows(state, transition) else state
    assert state not in TERMINAL
    assert state in TABLE["pause"] or after(state, "resume") == "queued"


def test_every_active_job_can_be_stopped_for_good() -> None:
    for state in ACTIVE - {"stopping"}:
        assert after(after(state, "stop"), "ended") == "stopped"


@pytest.mark.parametrize(
    ("stages_done", "graded", "expected"),
    [
        (0, 0, None),
        (1, 0, "generate"),
        (19, 9, "generate"),
        (20, 0, "grade"),
        (20, 9, "grade"),
        (20, 10, "finish"),
        (0, 10, "finish"),  # every sample was given up as an error: nothing was completed
    ],
)
def test_stage_is_the_earliest_one_that_has_work(stages_done: int, graded: int, expected: Transition | None) -> None:
    assert stage(stages_done=stages_done, stages_total=20, graded=graded, total=10) == expected


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30), st.integers(1, 3))
def test_stage_never_goes_back_while_counts_grow(done: int, graded: int, total: int, stages: int) -> None:
    order = [None, "generate", "grade", "finish"]
    done, graded = min(done, total * stages), min(graded, total)

    def place(stages_done: int, grades: int) -> int:
        return order.index(stage(stages_done=stages_done, stages_total=total * stages, graded=grades, total=total))

    assert place(done, graded) <= place(done + 1, graded)
    assert place(done, graded) <= place(done, graded + 1)
