"""Preference pairs: examples, properties, and the rules once more, naively."""

from pathlib import Path
from typing import get_args

import naive_selection as naive
import pytest
from drawn_samples import SAMPLES, one
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_data.recipes.selection.preference_pair import WHY_NO_PAIR, NoPair, PreferencePair
from rwkv_data.recipes.selection.short_long import short_long
from rwkv_data.recipes.selection.silc import silc


def pair(result):
    return (result.chosen.number, result.rejected.number) if isinstance(result, PreferencePair) else result


def or_none(result):
    return None if isinstance(result, str) else pair(result)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([one(0, 9), one(1, 5), one(2, 7)], (1, 0)),
        ([one(0, 9), one(1, 5), one(2, 9), one(3, 5)], (1, 2)),  # the first of the shortest, the last of the longest
        ([one(0, 9), one(1, 5), one(2, 20, 0.0), one(3, 2, 0.5), one(4, 1, None)], (1, 0)),
        ([one(0, 9), one(1, 3, cut_off=True), one(2, 5)], (2, 0)),  # never chosen
        ([one(0, 9, cut_off=True), one(1, 5)], (1, 0)),  # but rejected
        ([], "none-correct"),
        ([one(0, 9, None), one(1, 5, 0.0)], "none-correct"),
        ([one(0, 9), one(1, 5, 0.0)], "one-correct"),
        ([one(0, 9, cut_off=True), one(1, 5, cut_off=True)], "all-cut-off"),
        ([one(0, 5), one(1, 5)], "none-shorter"),
        ([one(0, 3, cut_off=True), one(1, 5)], "none-shorter"),
    ],
)
def test_short_long(samples, expected):
    assert pair(short_long(samples)) == expected


@pytest.mark.parametrize(("min_gap", "expected"), [(0, (1, 0)), (4, (1, 0)), (5, "gap-too-small")])
def test_the_gap_of_short_long(min_gap, expected):
    assert pair(short_long([one(0, 9), one(1, 5)], min_gap=min_gap)) == expected
    assert pair(short_long([one(0, 9), one(1, 9)], min_gap=min_gap)) == "none-shorter"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([one(0, 5, 0.0), one(1, 9), one(2, 7), one(3, 3)], (2, 0)),
        ([one(0, 5, 0.0), one(1, 4, 0.0), one(2, 5)], (2, 1)),
        ([one(0, 5, 0.5), one(1, 7)], (1, 0)),
        ([one(0, 1, None), one(1, 5, 0.0), one(2, 7)], (2, 1)),  # the shortest incorrect one with a verdict
        ([one(0, 5, 0.0, cut_off=True), one(1, 6, cut_off=True), one(2, 7)], (2, 0)),  # rejected, never chosen
        ([one(0, 5), one(1, 7)], "none-incorrect"),
        ([one(0, 5, 0.0)], "none-correct"),
        ([one(0, 5, None)], "none-correct"),
        ([], "none-correct"),
        ([one(0, 5, 0.0), one(1, 7, cut_off=True)], "all-cut-off"),
        ([one(0, 5, 0.0), one(1, 5), one(2, 3)], "none-longer"),
        ([one(0, 5, 0.0), one(1, 7, cut_off=True), one(2, 3)], "none-longer"),
    ],
)
def test_silc(samples, expected):
    assert pair(silc(samples)) == expected


def test_every_reason_has_its_sentence_there_and_in_the_document():
    assert list(WHY_NO_PAIR) == list(get_args(NoPair))
    page = (Path(__file__).resolve().parents[5] / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert "".join(f"| `{reason}` | {why} |\n" for reason, why in WHY_NO_PAIR.items()) in page


@settings(max_examples=400)
@given(SAMPLES, st.integers(0, 4))
def test_it_is_what_the_rules_say(samples, min_gap):
    assert or_none(short_long(samples, min_gap=min_gap)) == naive.short_long(samples, min_gap)
    assert or_none(silc(samples)) == naive.silc(samples)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_the_order_in_which_samples_come_does_not_matter(samples, random):
    shuffled = random.sample(samples, len(samples))
    assert short_long(samples) == short_long(shuffled) == short_long(iter(samples))
    assert silc(samples) == silc(shuffled) == silc(iter(samples))


@given(SAMPLES)
def test_what_is_chosen_is_correct_and_whole_and_both_have_a_verdict(samples):
    for result in (short_long(samples), silc(samples)):
        if isinstance(result, str):
            assert result in WHY_NO_PAIR
            continue
        assert result.chosen in samples
        assert result.rejected in samples
        assert result.chosen.value == 1
        assert not result.chosen.cut_off
        assert result.rejected.value is not None
        shorter, longer = result.chosen, result.rejected
        if result.rule == "silc":
            assert result.rejected.value < 1
            shorter, longer = longer, shorter
        else:
            assert result.rejected.value == 1
        assert shorter.tokens < longer.tokens


@given(SAMPLES)
def test_pairing_the_pair_again_gives_the_pair(samples):
    for rule in (short_long, silc):
        result = rule(samples)
        if not isinstance(result, str):
            assert rule([result.rejected, result.chosen]) == result


@given(SAMPLES, SAMPLES)
def test_samples_without_a_verdict_change_nothing(samples, more):
    there = [sample.number for sample in samples]
    ungraded = [one(each.number, each.tokens, None) for each in more if each.number not in there]
    assert short_long(samples) == short_long([*ungraded, *samples])
    assert silc(samples) == silc([*ungraded, *samples])
