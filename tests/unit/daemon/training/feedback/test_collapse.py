"""When a checkpoint has collapsed: all its answers are one, none is there, or it guesses where others know."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.training.feedback.collapse import (
    FEWEST_ROWS,
    AnswersGiven,
    fell_to_chance,
    is_above_chance,
    is_at_chance,
)
from rwkvctl.protocol.training.feedback import ALPHA
from rwkvctl.protocol.views import ComparisonView, MetricView, ScoreView

Row = tuple[str, str | None, str]
SAME = "every row has the same answer or none: A"
words = st.sampled_from(["", "A", "B"])


def problem(rows: list[Row]) -> str:
    given_answers = AnswersGiven()
    for number, row in enumerate(rows):
        given_answers.add(number, *row)
    return given_answers.problem


def score(low: float | None, chance: float | None = 0.25, rows: int = 100, *, value: float | None = 0.3) -> ScoreView:
    metrics = {"accuracy": MetricView(value=value, ci_low=low, ci_high=0.9)}
    return ScoreView(
        job="j1", model="m", benchmark="b", kind="k", version=1, primary="accuracy", metrics=metrics, n=rows,
        rows=rows, repeats=1, chance=chance,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], ""),
        ([("wrong", "A", "A"), ("wrong", "A", "B")] * 10, SAME),
        ([("wrong", "A", "A"), ("wrong", "A", "B")] * 9 + [("wrong", "A", "A")], ""),
        ([("wrong", "A", "A")] * 20, ""),
        ([("wrong", "A", "B"), ("wrong", "B", "A")] * 10, ""),
        ([("no_answer", None, "A")] * 20, "no row has an answer"),
        ([("no_answer", None, "A")] * 19, ""),
        ([("no_answer", None, "A")] * 19 + [("wrong", "A", "B")], SAME),
        ([("no_answer", None, "A")] + [("wrong", "A", "B")] * 19, SAME),
        ([("wrong", "", "A"), ("wrong", None, "B")] * 10, ""),
        ([("", "A", "A")] * 10 + [("wrong", "A", "B")] * 10, SAME),
        ([("no_answer", None, "A")] * 10 + [("wrong", "A", "B")] * 10, SAME),
        ([("wrong", "", "A")] * 10 + [("wrong", "A", "B")] * 10, SAME),
        ([("no_answer", None, "A")] * 19 + [("wrong", "A", "A")], ""),
        ([("no_answer", None, "A")] * 10 + [("wrong", "A", "B")] * 5 + [("wrong", "B", "B")] * 5, ""),
    ],
)
def test_what_all_answers_have_in_common_is_said(rows: list[Row], said: str) -> None:
    assert problem(rows) == said


@given(st.lists(st.tuples(st.sampled_from(["", "wrong", "no_answer"]), st.none() | words, words), max_size=60))
def test_a_problem_is_said_exactly_where_there_is_one(rows: list[Row]) -> None:
    answers, expected = {answer for _, answer, _ in rows if answer}, {text for *_, text in rows}
    none = all(reason == "no_answer" for reason, *_ in rows)
    same = len(answers) == 1 and len(expected) > 1
    assert bool(problem(rows)) == (len(rows) >= FEWEST_ROWS and (none or same))
    if same and not none and len(rows) >= FEWEST_ROWS:
        assert problem(rows) == f"every row has the same answer or none: {answers.pop()}"


@given(
    st.lists(st.tuples(st.just("wrong"), words, words), min_size=FEWEST_ROWS, max_size=60),
    st.lists(st.tuples(st.sampled_from(["wrong", "no_answer"]), st.sampled_from(["", None]), words), max_size=20),
    st.randoms(use_true_random=False),
)
def test_rows_without_an_answer_never_hide_that_all_others_have_the_same(
    rows: list[Row], empty: list[Row], shuffled: random.Random
) -> None:
    mixed = [*rows, *empty]
    shuffled.shuffle(mixed)
    assert not problem(rows) or problem(mixed) == problem(rows)


@given(st.permutations([("wrong", "A", "B")] * 12 + [("right", "A", "A")] * 12))
def test_the_order_of_the_rows_does_not_matter(rows: list[Row]) -> None:
    assert problem(rows) == SAME


def test_many_samples_of_few_rows_say_nothing() -> None:
    given_answers = AnswersGiven()
    for sample in range(10 * FEWEST_ROWS):
        given_answers.add(sample // 20, "no_answer", None, "A")
    assert (given_answers.problem, given_answers.rows) == ("", 10)


def test_no_more_than_two_texts_of_a_kind_are_kept() -> None:
    given_answers = AnswersGiven()
    for row in range(1000):
        given_answers.add(row, "wrong", f"a{row}", f"e{row}")
    assert (len(given_answers.answers), len(given_answers.expected), given_answers.rows) == (2, 2, 1000)


@pytest.mark.parametrize(
    ("view", "at", "above"),
    [
        (score(0.2), True, False),
        (score(0.25), True, False),
        (score(0.26), False, True),
        (score(None), False, False),
        (score(0.2, None), False, False),
        (score(0.2, rows=FEWEST_ROWS - 1), False, False),
        (score(0.2, rows=FEWEST_ROWS), True, False),
        (score(0.0, 0.0), True, False),
        (score(0.1, 0.0), False, True),
    ],
)
def test_a_score_is_at_chance_where_its_interval_reaches_down_to_it(view: ScoreView, at: bool, above: bool) -> None:
    assert (is_at_chance(view), is_above_chance(view)) == (at, above)


def test_a_score_without_its_headline_is_neither() -> None:
    view = ScoreView(job="j", model="m", benchmark="b", kind="k", version=1, primary="x", metrics={}, n=30, rows=30,
                     repeats=1, chance=0.5)  # fmt: skip
    assert not is_at_chance(view)
    assert not is_above_chance(view)


def compared(difference: float | None, p: float | None) -> ComparisonView:
    if difference is None:
        return ComparisonView(benchmark="b", kind="k", verdict="not comparable", p=p, why="other rows")
    verdict: Any = "no difference shown"
    return ComparisonView(benchmark="b", kind="k", verdict=verdict, difference=MetricView(value=difference), p=p)


@pytest.mark.parametrize(
    ("before", "found", "tests", "fell"),
    [
        (score(0.5), compared(-0.3, 0.001), 1, True),
        (score(0.5), compared(-0.3, 0.001), 49, True),
        (score(0.5), compared(-0.3, 0.001), 51, False),
        (score(0.5), compared(-0.3, ALPHA), 1, False),
        (score(0.5), compared(-0.3, 0.2), 1, False),
        (score(0.5), compared(0.3, 0.001), 1, False),
        (score(0.5), compared(0.0, 0.0), 1, False),
        (score(0.5), compared(-0.3, None), 1, False),
        (score(0.5), compared(None, None), 1, False),
        (score(0.5), compared(None, 0.001), 1, False),
        (score(0.2), compared(-0.3, 0.001), 1, False),
        (score(0.25), compared(-0.3, 0.001), 1, False),
        (score(None), compared(-0.3, 0.001), 1, False),
        (score(0.5, None), compared(-0.3, 0.001), 1, False),
    ],
)
def test_it_fell_to_chance_where_it_is_significantly_worse_than_one_above_it(
    before: ScoreView, found: ComparisonView, tests: int, fell: bool
) -> None:
    assert fell_to_chance(before, found, tests) == fell


def test_a_difference_without_a_value_is_no_fall() -> None:
    none = ComparisonView(benchmark="b", kind="k", verdict="not comparable", difference=MetricView(value=None), p=0.0)
    assert not fell_to_chance(score(0.5), none, 1)


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(1, 50))
def test_more_tests_never_make_a_fall(difference: float, p: float, tests: int) -> None:
    found = compared(difference, p)
    assert fell_to_chance(score(0.5), found, 1) or not fell_to_chance(score(0.5), found, tests)
