"""Which checkpoints of a training run are measured: every order of arrival, and what is gone meanwhile."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.training.watch_policy import (
    Decision,
    WatchedCheckpoint,
    copies_without_original,
    decide,
    order_of,
)
from rwkvctl.protocol.training.watches import FINAL_STEP

POLICIES = ("all", "newest", "first-and-last")


def checkpoint(number: int, step: int | None, stage: str = "waits", *, at: int = 0, wanted: bool = False) -> Any:
    order = order_of(f"c{number}", step, modified_ns=at or number)
    return WatchedCheckpoint(number, order, stage, is_wanted=wanted)  # type: ignore[arg-type]


def left_out(decision: Decision) -> dict[int, str]:
    return {number: reason for number, (_, reason) in decision.superseded.items()}


def test_the_newest_takes_the_place_of_those_of_which_no_job_has_begun() -> None:
    decided = decide("newest", 0, [checkpoint(1, 10, "measured"), checkpoint(2, 20), checkpoint(3, 30)])
    assert (decided.measure, left_out(decided)) == ([3], {2: "c3 is newer"})


def test_one_that_arrives_late_is_superseded_by_what_is_measured() -> None:
    decided = decide("newest", 0, [checkpoint(1, 30, "measured", at=5), checkpoint(2, 20, at=2)])
    assert (decided.measure, left_out(decided)) == ([], {2: "c1 is newer"})


def test_a_run_that_begins_anew_in_the_same_folder_is_measured() -> None:
    decided = decide("newest", 0, [checkpoint(1, FINAL_STEP, "measured", at=5), checkpoint(2, 20, at=9)])
    assert decided.measure == [2]


def test_a_name_without_a_step_does_not_take_the_place_of_one_with_a_step() -> None:
    decided = decide("newest", 0, [checkpoint(1, None, at=9), checkpoint(2, 20, at=2), checkpoint(3, None, "measured")])
    assert (decided.measure, left_out(decided)) == ([2], {1: "c2 is newer (its name says a step)"})


def test_what_was_left_out_of_an_earlier_run_does_not_keep_a_new_run_out() -> None:
    old = [checkpoint(1, 50, at=1), checkpoint(2, 90, at=2), checkpoint(3, 100, "measured", at=3)]
    decided = decide("newest", 0, [*old, checkpoint(4, 10, at=9)])
    assert (decided.measure, set(decided.superseded)) == ([4], {1, 2})


def test_a_name_without_a_step_is_older_than_what_was_measured_with_one() -> None:
    assert decide("newest", 0, [checkpoint(1, 3, "measured"), checkpoint(2, None, at=9)]).measure == []


def test_names_without_steps_come_in_the_order_in_which_they_were_written() -> None:
    assert decide("newest", 0, [checkpoint(1, None, at=9), checkpoint(2, None, at=3)]).measure == [1]


def test_the_first_is_kept_with_the_newest() -> None:
    decided = decide("first-and-last", 0, [checkpoint(1, 10), checkpoint(2, 20), checkpoint(3, 30)])
    assert (decided.measure, left_out(decided)) == ([1, 3], {2: "c3 is newer"})


def test_steps_in_between_are_left_out_and_the_final_one_is_not() -> None:
    found = [checkpoint(1, 500), checkpoint(2, 700), checkpoint(3, FINAL_STEP), checkpoint(4, None)]
    decided = decide("all", 500, found)
    assert decided.measure == [1, 3]
    assert left_out(decided) == {2: "its step 700 is no multiple of 500", 4: "its name says no step"}
    assert {why for why, _ in decided.superseded.values()} == {"not-due"}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_an_operator_wants_is_measured_whatever_the_policy_says(policy: Any) -> None:
    found = [checkpoint(1, 7, wanted=True), checkpoint(2, 10), checkpoint(3, 20), checkpoint(4, 30)]
    assert 1 in decide(policy, 10, found).measure


def test_copies_of_what_nobody_measures_are_measured_once() -> None:
    copies = {1: "a", 2: "b", 3: "b"}
    assert copies_without_original(copies, {"a"}) == [2]
    assert copies_without_original(copies, {"a", "b"}) == []


some = st.builds(
    checkpoint,
    number=st.integers(1, 10**6),
    step=st.one_of(st.none(), st.integers(0, 50)),
    stage=st.sampled_from(["waits", "measured"]),
    at=st.integers(1, 100),
    wanted=st.booleans(),
)


@given(st.sampled_from(POLICIES), st.sampled_from([0, 10]), st.lists(some, unique_by=lambda one: one.id), st.randoms())
def test_each_that_waits_is_measured_or_left_out_whatever_their_order(policy, every, found, dice) -> None:  # type: ignore[no-untyped-def]
    decided = decide(policy, every, found)
    waiting = {one.id for one in found if one.stage == "waits"}
    assert set(decided.measure) | decided.superseded.keys() == waiting
    assert not set(decided.measure) & decided.superseded.keys()
    orders = {one.id: one.order for one in found}
    assert [orders[number] for number in decided.measure] == sorted(orders[number] for number in decided.measure)
    if policy != "all":
        wanted = {one.id for one in found if one.is_wanted}
        assert len(set(decided.measure) - wanted) <= (1 if policy == "newest" else 2)
    mixed = list(found)
    dice.shuffle(mixed)
    assert decide(policy, every, mixed).superseded.keys() == decided.superseded.keys()


@given(st.lists(some, unique_by=lambda one: one.id, min_size=1))
def test_the_newest_is_the_last_of_those_than_which_nothing_newer_was_measured(found) -> None:  # type: ignore[no-untyped-def]
    measured = [one.order for one in found if one.stage == "measured"]

    def is_old(order: Any) -> bool:
        return any(other > order and (other.modified_ns >= order.modified_ns or order.step < 0) for other in measured)

    current = [one for one in found if one.stage == "waits" and not is_old(one.order)]
    newest = max(current, key=lambda one: one.order, default=None)
    wanted = {one.id for one in found if one.stage == "waits" and one.is_wanted}
    assert set(decide("newest", 0, found).measure) == wanted | ({newest.id} if newest else set())
