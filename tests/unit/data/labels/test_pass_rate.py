"""Difficulty of a problem by the share of right samples: the ends of the scale, and its order."""

from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.labels.label_file import NAME
from rwkv_data.labels.pass_rate import LABEL, RULE, VERSION, difficulty

VERDICTS = st.integers(1, 1000)


@given(VERDICTS)
def test_a_problem_that_is_never_solved_is_at_the_upper_end(verdicts: int) -> None:
    assert difficulty(0, verdicts) == 10


@given(VERDICTS)
def test_a_problem_that_is_always_solved_is_at_the_lower_end(verdicts: int) -> None:
    assert difficulty(verdicts, verdicts) == 1


def test_a_problem_without_a_verdict_has_no_label() -> None:
    assert difficulty(0, 0) is None


@given(VERDICTS, st.data())
def test_more_right_samples_never_make_a_problem_harder(verdicts: int, data: st.DataObject) -> None:
    fewer, more = sorted(data.draw(st.tuples(st.integers(0, verdicts), st.integers(0, verdicts))))
    harder, easier = difficulty(fewer, verdicts), difficulty(more, verdicts)
    assert harder is not None
    assert easier is not None
    assert 1 <= easier <= harder <= 10


@given(st.integers(1, 64), st.data())
def test_up_to_64_verdicts_each_share_has_a_label_of_its_own(verdicts: int, data: st.DataObject) -> None:
    one, other = data.draw(st.tuples(st.integers(0, verdicts), st.integers(0, verdicts)))
    assert (difficulty(one, verdicts) == difficulty(other, verdicts)) == (one == other)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(1, 20))
def test_only_the_share_counts_not_how_many_samples_there_are(right: int, verdicts: int, times: int) -> None:
    right = min(right, verdicts)
    assert difficulty(right, verdicts) == difficulty(right * times, verdicts * times)


def test_thirds_are_rounded_to_three_places() -> None:
    assert [difficulty(right, 7) for right in (1, 2, 3)] == [8.714, 7.429, 6.143]


def test_the_rule_is_named_with_its_version() -> None:
    assert f"{RULE}/{VERSION}" == LABEL
    assert NAME.fullmatch(RULE)
