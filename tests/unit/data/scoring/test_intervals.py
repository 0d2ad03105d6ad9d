"""The coverage of 95 % intervals, by simulated benchmarks with questions from a known distribution."""

import math
from collections.abc import Iterator
from statistics import NormalDist, fmean

import numpy as np
import pytest

from rwkv_data.scoring.paired_tests import pair
from rwkv_data.scoring.statistics import Estimate, corpus_estimate, estimate, paired_difference, student

SPREADS = (0.3, 1.0, 3.0, 20.0)
"""Beta distributions of the questions' difficulty, from all or nothing to all alike."""
ACCURACIES = (0.1, 0.3, 0.5, 0.7, 0.9)


def holds(found: Estimate, truth: float) -> bool:
    return found.ci_low - 1e-12 <= truth <= found.ci_high + 1e-12


def runs(n: int, k: int, spread: float, draws: int) -> Iterator[tuple[float, list[float]]]:
    """Yield (accuracy, each question's share of right answers) of many runs over n questions with k answers each."""
    source = np.random.default_rng([n, k, round(10 * spread)])
    for accuracy in ACCURACIES:
        chances = source.beta(accuracy * spread, (1 - accuracy) * spread, size=(draws, n))
        for rows in (source.binomial(k, chances) / k).tolist():
            yield accuracy, rows


@pytest.mark.parametrize("k", [1, 4, 16])
@pytest.mark.parametrize(("n", "draws"), [(10, 200), (30, 150), (100, 80), (500, 30)])
def test_intervals_of_means_hold_the_truth_as_often_as_they_say(n: int, k: int, draws: int) -> None:
    held = [
        fmean(holds(estimate(rows), accuracy) for accuracy, rows in runs(n, k, spread, draws)) for spread in SPREADS
    ]
    assert 0.93 <= fmean(held) <= 0.97
    assert all(0.91 <= share <= 0.99 for share in held), held


def two_runs(kind: str, n: int, k: int, draws: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Yield (difference, rows of a, rows of b): the same model twice, with few questions changed, or all slightly."""
    source = np.random.default_rng([n, k, len(kind)])
    if kind == "same":
        a = b = source.beta(0.5, 0.5, size=(draws, n))
        truth = 0.0
    elif kind == "few":
        a = (source.random((draws, n)) < 0.5) * 1.0
        b = np.where(source.random((draws, n)) < 3 / n, 1.0, a)
        truth = 1.5 / n
    else:
        level, own = source.normal(0.3, 1.5, size=(draws, n)), source.normal(0.5, 0.7, size=(draws, n))
        a, b = (1 / (1 + np.exp(-logits)) for logits in (level, level + own))
        grid = [NormalDist(0, 1).inv_cdf((i + 0.5) / 4000) for i in range(4000)]
        shifted = [1 / (1 + math.exp(-(0.8 + math.hypot(1.5, 0.7) * z))) for z in grid]
        truth = fmean(shifted) - fmean(1 / (1 + math.exp(-(0.3 + 1.5 * z))) for z in grid)
    return truth, source.binomial(k, a) / k, source.binomial(k, b) / k


@pytest.mark.parametrize("kind", ["same", "few", "little"])
@pytest.mark.parametrize(("n", "k"), [(10, 1), (10, 4), (30, 1), (30, 16), (100, 4), (300, 1)])
def test_intervals_of_differences_hold_the_truth_at_least_as_often(kind: str, n: int, k: int) -> None:
    truth, a, b = two_runs(kind, n, k, 400)
    held = fmean(holds(paired_difference(y, x), truth) for x, y in zip(a.tolist(), b.tolist(), strict=True))
    assert held >= 0.93
    assert held <= 0.975 or kind != "little" or n < 30


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_rows_without_a_difference_do_not_prove_that_there_is_none(value: float) -> None:
    for n, most in ((10, 0.232), (100, 0.0272), (1000, 0.00277)):
        for verdicts in (True, False):
            found = pair([value] * n, [value] * n, verdicts=verdicts).difference
            assert (found.value, found.stderr) == (0.0, 0.0)
            assert found.ci_high == -found.ci_low == pytest.approx(most, abs=most / 50)


def test_a_difference_may_leave_what_shares_can_only_where_values_are_none() -> None:
    assert paired_difference([1.0] * 3, [0.0] * 3)[2:] == (pytest.approx(-0.10, abs=0.01), 1.0)
    found = paired_difference([40.0, 42.0, 47.0], [20.0, 21.0, 22.0])
    assert found.ci_low < found.value == 22 < found.ci_high
    assert paired_difference([5.0, 9.0], [5.0, 9.0]).ci_high > 2


def test_a_measure_of_the_corpus_that_is_a_share_is_not_certain_where_all_are_right() -> None:
    def share(sums) -> float:
        return sums["followed"] / sums["all"]

    rows = [{"followed": 2.0, "all": 2.0}] * 20
    found = corpus_estimate(share, rows, share=True)
    assert (found.value, found.stderr, found.ci_high) == (1.0, 0.0, 1.0)
    assert 0.7 < found.ci_low < 0.9
    assert corpus_estimate(share, rows[:1], share=True).ci_low < 0.5
    nearly = corpus_estimate(share, [*rows, {"followed": 1.0, "all": 2.0}], share=True)
    assert 0.8 < nearly.ci_low < nearly.value < nearly.ci_high <= 1


@pytest.mark.parametrize(
    ("df", "quantile"), [(1, 12.706205), (2, 4.302653), (3, 3.182446), (9, 2.262157), (29, 2.045230), (999, 1.962341)]
)
def test_student_quantiles(df: int, quantile: float) -> None:
    assert student(df) == pytest.approx(quantile, rel=0.0013 if df == 3 else 1e-5)
