"""Which samples a selector takes: examples, properties, and the naive reading of the issue."""

from dataclasses import replace
from itertools import permutations

import naive_selection as naive
import pytest
from drawn_samples import PASS_RATES, ROW_IDS, SAMPLES, one
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_data.recipes.selection.pass_rate import PassRate
from rwkv_data.recipes.selection.selector import SELECTION_RULES, Selector

LIMITED = [rule for rule in SELECTION_RULES if rule != "all-correct"]
PROBLEM = [
    one(0, 30), one(1, 10, 0.0), one(2, 20), one(3, 40), one(4, 20), one(5, 5, cut_off=True), one(6, 50, cut_off=True),
    one(7, 1, None), one(8, 45, 0.5), one(9, 40),
]  # fmt: skip


def selector(rule, k=1, seed=0, pass_rate=None):
    return Selector(rule=rule, k=None if rule == "all-correct" else k, seed=seed, pass_rate=pass_rate)


SELECTORS = st.builds(
    selector, st.sampled_from(SELECTION_RULES), st.integers(1, 4), st.integers(0, 5),
    PASS_RATES.map(lambda bounds: bounds and PassRate(*bounds)),
)  # fmt: skip


def numbers(samples):
    return [sample.number for sample in samples]


@pytest.mark.parametrize(
    ("rule", "k", "taken"),
    [
        ("all-correct", None, [2, 4, 0, 3, 9]),
        ("first-correct", 1, [0]),
        ("first-correct", 3, [2, 0, 3]),
        ("shortest-correct", 1, [2]),
        ("shortest-correct", 3, [2, 4, 0]),
        ("longest-correct", 1, [9]),
        ("longest-correct", 2, [3, 9]),
        ("k-correct", 9, [2, 4, 0, 3, 9]),
    ],
)
def test_what_each_takes(rule, k, taken):
    assert numbers(selector(rule, k).select("row", PROBLEM)) == taken


def test_a_draw_is_the_same_in_every_process_and_version():
    """Other numbers here are other training data of the same recipe."""
    drawn = {seed: numbers(selector("k-correct", 2, seed).select("math/17", PROBLEM)) for seed in range(4)}
    assert drawn == {0: [0, 3], 1: [4, 9], 2: [4, 9], 3: [0, 9]}
    assert numbers(selector("k-correct", 2, 0).select("math/\ud800", PROBLEM)), "an id that is not Unicode"


@given(SELECTORS, ROW_IDS, SAMPLES, st.permutations(range(9)))
def test_it_does_not_matter_in_which_order_the_store_got_the_samples(chosen, row_id, samples, numbers):
    stored = [replace(sample, number=number) for sample, number in zip(samples, numbers, strict=False)]
    taken = (chosen.select(row_id, some) for some in (samples, stored))
    assert len({tuple(sample.turn for sample in each) for each in taken}) == 1


def test_a_draw_treats_samples_alike():
    drawn = [numbers(selector("k-correct").select(f"row {row}", PROBLEM))[0] for row in range(1000)]
    assert all(150 < drawn.count(number) < 250 for number in (0, 2, 3, 4, 9))


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [(0, 1, True), (0.7, 0.8, True), (7 / 9, 1, True), (0, 7 / 9, True), (0.78, 1, False), (0, 0.77, False)],
)
def test_the_pass_rate_counts_what_was_cut_off_and_not_what_has_no_verdict(low, high, holds):
    assert PassRate(low, high).holds(PROBLEM) is holds
    assert bool(selector("all-correct", pass_rate=PassRate(low, high)).select("row", PROBLEM)) is holds


def test_a_written_decimal_is_the_share_it_says():
    for total in range(1, 65):
        for right in range(total + 1):
            share = float(f"{right / total:.17g}")
            assert PassRate(share, share).holds([one(at, 1, float(at < right)) for at in range(total)])
    assert PassRate(0.1, 0.3).holds([one(at, 1, float(at < 3)) for at in range(10)])


def test_a_problem_without_a_verdict_has_no_pass_rate():
    assert not PassRate(0, 1).holds([one(0, 1, None)])
    assert not PassRate(0, 1).holds([])


@settings(max_examples=400)
@given(SELECTORS, ROW_IDS, SAMPLES)
def test_it_is_what_the_issue_says(chooses, row_id, samples):
    bounds = chooses.pass_rate and (chooses.pass_rate.low, chooses.pass_rate.high)
    expected = naive.selected(chooses.rule, chooses.k, chooses.seed, bounds, row_id, samples)
    taken = chooses.select(row_id, samples)
    assert set(numbers(taken)) == expected
    assert taken == [sample for sample in naive.ordered(samples) if sample.number in expected]


@given(SELECTORS, ROW_IDS, SAMPLES, st.randoms(use_true_random=False))
def test_the_order_in_which_samples_come_does_not_matter(chooses, row_id, samples, random):
    shuffled = random.sample(samples, len(samples))
    assert chooses.select(row_id, samples) == chooses.select(row_id, shuffled) == chooses.select(row_id, iter(samples))


@given(SELECTORS, ROW_IDS, SAMPLES)
def test_what_is_taken_is_correct_and_whole_and_no_more_than_k(chooses, row_id, samples):
    taken = chooses.select(row_id, samples)
    assert all(sample in samples and sample.value == 1 and not sample.cut_off for sample in taken)
    right = [sample for sample in samples if sample.value == 1 and not sample.cut_off]
    if chooses.pass_rate is None or chooses.pass_rate.holds(samples):
        assert len(taken) == min(len(right), chooses.k or len(right))
    else:
        assert not taken


@given(SELECTORS, ROW_IDS, SAMPLES)
def test_selecting_from_what_was_selected_changes_nothing(chooses, row_id, samples):
    again = selector(chooses.rule, chooses.k, chooses.seed)
    taken = again.select(row_id, samples)
    assert again.select(row_id, taken) == taken


@given(SELECTORS, ROW_IDS, SAMPLES, SAMPLES)
def test_further_samples_only_take_the_place_of_others(chooses, row_id, samples, more):
    """What is taken of many samples and was among the first ones was taken of those, too."""
    plain = selector(chooses.rule, chooses.k, chooses.seed)
    further = [sample for sample in more if sample.number not in numbers(samples)]
    taken = plain.select(row_id, [*samples, *further])
    assert {sample.number for sample in taken if sample in samples} <= set(numbers(plain.select(row_id, samples)))


@given(st.sampled_from(LIMITED), st.integers(1, 4), st.integers(0, 5), ROW_IDS, SAMPLES)
def test_a_higher_k_only_adds(rule, k, seed, row_id, samples):
    fewer, more = (numbers(selector(rule, most, seed).select(row_id, samples)) for most in (k, k + 1))
    assert set(fewer) <= set(more)


@given(SAMPLES)
def test_the_shortest_is_no_longer_than_any_and_the_longest_no_shorter(samples):
    right = [sample.tokens for sample in samples if sample.value == 1 and not sample.cut_off]
    for rule, length in (("shortest-correct", min), ("longest-correct", max)):
        assert [sample.tokens for sample in selector(rule).select("row", samples)] == ([length(right)] if right else [])


def test_every_order_of_a_problem():
    for samples in permutations(PROBLEM[:6]):
        assert numbers(selector("shortest-correct", 2).select("row", samples)) == [2, 4]
