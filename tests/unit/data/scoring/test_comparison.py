"""Paired comparison: golden numbers, its random numbers, and cases without a difference to show."""

import math
import random
from collections import Counter
from statistics import fmean, pvariance

import pytest
from effort import bounded
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.scoring.metric_names import Sample, measure
from rwkv_data.scoring.paired_tests import (
    alike,
    binned,
    binomial,
    bootstrap,
    conditional_shares,
    holm,
    lower_is_better,
    multinomial,
    pair,
    pair_verdicts,
    quantile,
    row_values,
    verdict,
)


def test_the_bootstrap_is_the_same_every_time_and_cheap_on_the_largest_set() -> None:
    source = random.Random(3)
    differences = source.choices([-1.0, 0.0, 1.0], [3, 90, 7], k=14_042)
    with bounded():  # 10,000 resamples of 14,042 rows one by one would take minutes
        first = bootstrap(differences)
    assert bootstrap(differences) == first
    half = 1.96 * math.sqrt(pvariance(differences) / len(differences))
    assert first.ci_low == pytest.approx(fmean(differences) - half, abs=0.05 * half)
    assert first.ci_high == pytest.approx(fmean(differences) + half, abs=0.05 * half)


@pytest.mark.parametrize("count", [50, 400, 5000])
def test_many_distinct_values_are_resampled_as_normal_theory_says(count: int) -> None:
    source = random.Random(count)
    differences = [source.gauss(0.02, 0.3) for _ in range(count)]
    found = bootstrap(differences, draws=4000)
    half = 1.96 * math.sqrt(pvariance(differences) / count)
    assert found.ci_low == pytest.approx(fmean(differences) - half, abs=0.1 * half)
    assert found.ci_high == pytest.approx(fmean(differences) + half, abs=0.1 * half)


def test_binning_keeps_the_mean_and_nearly_the_variance() -> None:
    source = random.Random(1)
    values = [source.gauss(0, 1) for _ in range(3000)]
    weights = binned(values)
    assert sum(weights.values()) == pytest.approx(3000)
    mean = sum(value * weight for value, weight in weights.items()) / 3000
    assert mean == pytest.approx(fmean(values), abs=1e-12)
    variance = sum(weight * (value - mean) ** 2 for value, weight in weights.items()) / 3000
    assert 1 <= variance / pvariance(values) < 1.002


@pytest.mark.parametrize(
    ("n", "p"), [(20, 0.3), (1000, 0.002), (1319, 0.2), (14042, 0.93), (60, 0.5), (7, 0.0), (7, 1.0)]
)
def test_binomial_numbers_have_the_right_moments(n: int, p: float) -> None:
    source = random.Random(11)
    drawn = [binomial(source, n, p) for _ in range(20_000)]
    variance = n * p * (1 - p)
    assert all(0 <= k <= n for k in drawn)
    assert fmean(drawn) == pytest.approx(n * p, abs=5 * math.sqrt(variance / 20_000) + 1e-12)
    assert pvariance(drawn) == pytest.approx(variance, rel=0.06, abs=1e-12)


def test_binomial_numbers_have_the_right_frequencies() -> None:
    """Chi-squared over a case of each method; 99.9 % quantiles for the degrees of freedom."""
    for n, p, limit in ((12, 0.25, 27.9), (40, 0.5, 49.7)):
        source = random.Random(5)
        counts = Counter(binomial(source, n, p) for _ in range(40_000))
        expected = {k: 40_000 * math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)}
        cells = [k for k in expected if expected[k] >= 5]
        assert sum((counts[k] - expected[k]) ** 2 / expected[k] for k in cells) < limit


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 500), st.integers(0, 9))
def test_multinomial_draws_add_up(weights: list[int], count: int, seed: int) -> None:
    drawn = multinomial(random.Random(seed), count, conditional_shares([float(weight) for weight in weights]))
    assert len(drawn) == len(weights)
    assert sum(drawn) == count
    assert min(drawn) >= 0


def test_few_rows_prove_nothing() -> None:
    assert bootstrap([0.5, 0.5, 0.5]).p == 0.25
    assert bootstrap([0.0] * 30) == (0.0, 0.0, 1.0)
    assert pair([0.0], [1.0], verdicts=True).p == 1.0
    assert pair([0.0], [0.5], verdicts=False).p == 1.0


def test_verdicts_with_fractions_among_them_are_not_tested_by_mcnemar() -> None:
    assert pair([0.0, 1.0], [0.5, 1.0], verdicts=True).test == "bootstrap"
    assert pair([0.0, 1.0], [1.0, 1.0], verdicts=False).test == "bootstrap"


def test_holm_equals_the_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_lowers_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    ranked = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.floats(0, 1))
def test_quantiles_stay_inside(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert ordered[0] - 1e-9 <= found <= ordered[-1] + 1e-9


def row_of(*values: float) -> list[Sample]:
    return [Sample(0, repeat, value, "stop_token", None, "right") for repeat, value in enumerate(values)]


def test_values_of_rows_by_metric() -> None:
    rows = [row_of(1, 0, 0, 0), row_of(1, 1, 0, 0)]
    assert row_values("accuracy", rows) == [0.25, 0.5]
    assert row_values("avg@2", rows) == [0.5, 1.0]
    assert row_values("pass^2", rows) == pytest.approx([0, 1 / 6])
    with pytest.raises(ValueError, match="no metric is called"):
        row_values("charm", rows)


def test_a_corpus_measure_is_paired_by_what_each_row_moves() -> None:
    """Two runs of bits per byte: the mean of the rows' values is the metric, and a constant increase shows as worse."""
    source = random.Random(2)

    def rows(extra: float) -> list[list[Sample]]:
        source.seed(4)
        sizes = [source.randrange(50, 400) for _ in range(60)]
        parts = [{"nats": size * (0.6 + extra + source.gauss(0, 0.02)), "bytes": float(size)} for size in sizes]
        return [[Sample(row, 0, None, "stop_token", None, "right", "", own)] for row, own in enumerate(parts)]

    a, b = row_values("bits_per_byte", rows(0.0)), row_values("bits_per_byte", rows(0.05))
    assert fmean(a) == pytest.approx(measure("bits_per_byte", rows(0.0)).value)
    found = pair(a, b, verdicts=False)
    assert found.difference.value == pytest.approx(0.05 / math.log(2), rel=1e-6)
    assert found.difference.ci_low <= found.difference.value <= found.difference.ci_high
    assert lower_is_better("bits_per_byte")
    assert verdict(found.difference.value, found.p, 0.05, lower=True) == "worse"
    assert row_values("bits_per_byte", rows(0.0)[:1]) == [measure("bits_per_byte", rows(0.0)[:1]).value]


def test_which_metrics_are_alike() -> None:
    assert alike("accuracy", "avg@4")
    assert alike("pass@1", "avg@8")
    assert alike("pass@8", "pass@8")
    assert not alike("pass@8", "avg@8")
    assert not alike("bits_per_byte", "accuracy")


def test_verdict_words() -> None:
    assert verdict(0.1, 0.04, 0.05) == "better"
    assert verdict(-0.1, 0.04, 0.05) == "worse"
    assert verdict(-0.1, 0.05, 0.05) == "no difference shown"
    assert verdict(0.0, 0.01, 0.05) == "no difference shown"


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 300))
def test_counts_of_verdicts_give_the_same_bits_as_the_verdicts(both: int, only_a: int, only_b: int, none: int) -> None:
    if not both + only_a + only_b + none:
        return
    a = [1.0] * both + [1.0] * only_a + [0.0] * only_b + [0.0] * none
    b = [1.0] * both + [0.0] * only_a + [1.0] * only_b + [0.0] * none
    assert pair_verdicts(both, only_a, only_b, none) == pair(a, b, verdicts=True)


@pytest.mark.parametrize("counts", [(70_001, 99, 3, 29_897), (33_333, 80, 120, 17), (1, 0, 0, 0), (5000, 700, 777, 1)])
def test_counts_of_very_many_verdicts_do_so_too(counts: tuple[int, int, int, int]) -> None:
    both, only_a, only_b, none = counts
    a = [1.0] * both + [1.0] * only_a + [0.0] * only_b + [0.0] * none
    b = [1.0] * both + [0.0] * only_a + [1.0] * only_b + [0.0] * none
    assert pair_verdicts(both, only_a, only_b, none) == pair(a, b, verdicts=True)
