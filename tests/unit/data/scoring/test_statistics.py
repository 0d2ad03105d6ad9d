"""Statistics against published golden numbers (the reference's table of section 7.2) and their own laws."""

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import registry
from rwkv_data.scoring import statistics
from rwkv_data.scoring.score import score
from rwkv_data.scoring.statistics import (
    avg_at_k,
    estimate,
    maj_at_k,
    mcnemar,
    mean_stderr,
    pass_at_k,
    pass_hat_k,
    wilson,
)

GSM8K = registry.load("gsm8k").default_kind
MATH = registry.load("math_500").default_kind
MMLU = registry.load("mmlu").default_kind

# Right answers of 8 samples for each of the 100 questions of QwenLM/Qwen2.5-Math's math_cot_100.jsonl, and the answers
# of the ten mixed questions as classes (capital = right), in sampling order.
COUNTS = [8] * 86 + [0] * 4 + [3, 4, 2, 6, 1, 4, 3, 7, 6, 4]
VOTES = [
    "aBBcBdea", "AAbbAAbb", "aaBcBdef", "aBBBcBBB", "abbcDefg",
    "AbAbbAAb", "aBBaaBaa", "AAAbAAAA", "aBcBBBBB", "AbAAcdbA",
]  # fmt: skip


def outcomes(vote: str) -> list[float]:
    return [float(letter.isupper()) for letter in vote]


def clustered_stderr(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """Standard error of the mean of values that come in clusters, of whatever sizes (Miller 2024, arXiv 2411.00640)."""
    mean, sums = fmean(values), dict.fromkeys(clusters, 0.0)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - mean
    count = len(sums)
    if count < 2:
        return None
    return math.sqrt(count / (count - 1) * math.fsum(total**2 for total in sums.values())) / len(values)


def test_golden_repeated_samples() -> None:
    assert [sum(outcomes(vote)) for vote in VOTES] == COUNTS[90:]
    rows = [[1.0] * c + [0.0] * (8 - c) for c in COUNTS]
    means = [fmean(row) for row in rows]
    flat = [value for row in rows for value in row]
    clusters = [index for index, row in enumerate(rows) for _ in row]
    assert fmean(means) == pytest.approx(0.91)
    assert clustered_stderr(flat, clusters) == pytest.approx(0.025005049995, rel=1e-9)
    assert mean_stderr(means)[1] == pytest.approx(0.025005049995, rel=1e-9)
    assert mean_stderr(flat)[1] == pytest.approx(0.010124382890, rel=1e-9)
    passes = [fmean(pass_at_k(8, c, k) for c in COUNTS) for k in (1, 2, 4, 8)]
    assert passes == pytest.approx([0.91, 0.9328571428571429, 0.951, 0.96])
    hats = [fmean(pass_hat_k(8, c, k) for c in COUNTS) for k in (2, 4, 8)]
    assert hats == pytest.approx([0.8871428571428571, 0.8697142857142858, 0.86])


def test_golden_majority() -> None:
    """A tie counts as the mean of the tied answers: .925; the first answer would give .93."""
    mixed = [maj_at_k(vote, outcomes(vote), 8) for vote in VOTES]
    assert fmean([1.0] * 86 + [0.0] * 4 + mixed) == pytest.approx(0.925)


def test_majority_ignores_no_answers() -> None:
    assert maj_at_k([None, None, "a", None], [0, 0, 1, 0], 4) == 1.0
    assert maj_at_k([None, None], [0, 0], 2) == 0.0


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_draws(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    draws = Fraction(math.comb(n - c, k), math.comb(n, k))
    assert pass_at_k(n, c, k) == pytest.approx(float(1 - draws))
    assert pass_hat_k(n, c, k) <= pass_at_k(n, c, k) + 1e-12
    assert pass_at_k(n, c, 1) == pytest.approx(c / n)


@pytest.mark.parametrize("arguments", [(3, 1, 4), (3, 1, 0), (3, 4, 1), (0, 0, 1)])
def test_too_few_samples_are_refused_not_dropped(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="samples"):
        pass_at_k(*arguments)
    with pytest.raises(ValueError, match="samples"):
        avg_at_k([1.0], 2)


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilson_stays_within_and_around(c: int, n: int) -> None:
    share = min(c, n) / n
    low, high = wilson(share, n)
    assert 0 <= low <= share <= high <= 1
    assert high - low > 0


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=20))
def test_equal_clusters_are_the_means_of_rows(rows: list[list[float]]) -> None:
    flat = [value for row in rows for value in row]
    clusters = [index for index, row in enumerate(rows) for _ in row]
    expected = mean_stderr([fmean(row) for row in rows])[1]
    assert clustered_stderr(flat, clusters) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_intervals_hold_their_value(values: list[float]) -> None:
    got = estimate(values)
    assert 0 <= got.ci_low <= got.value + 1e-12
    assert got.value - 1e-12 <= got.ci_high <= 1
    assert got.ci_low < got.ci_high or len(set(values)) > 1


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_mcnemar_is_a_probability_and_symmetric(a: int, b: int) -> None:
    assert 0 <= mcnemar(a, b) <= 1
    assert mcnemar(a, b) == mcnemar(b, a)


@pytest.mark.parametrize("fewer", [501, 1000, 4999, 20_000])
@pytest.mark.parametrize("more", [0, 1, 37, 900, 60_000])
def test_mcnemar_of_many_pairs_has_the_bits_of_the_whole_sum(fewer: int, more: int) -> None:
    low, high = statistics._p_between(2 * fewer + more, fewer)
    assert low == high == statistics._exact_p(2 * fewer + more, fewer) == mcnemar(fewer + more, fewer)


def test_mcnemar_without_discordant_pairs() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(1, 5) == pytest.approx(0.21875)
    assert mcnemar(3000, 3000) == 1.0


def sample(row: int, repeat: int = 0, value: float | None = 1.0, stop: str = "stop_token", reason: str = "right"):
    return (row, repeat, value, stop, "x", reason)


def test_score_counts_and_estimates() -> None:
    samples = [sample(row, repeat, float(repeat < row)) for row in range(5) for repeat in range(4)]
    got = score(MATH, reversed(samples), rows=[{"subject": "abcde"[row]} for row in range(5)])
    assert (got["n"], got["rows"], got["repeats"], got["reason"], got["primary"]) == (20, 5, 4, None, "avg@4")
    assert got["metrics"]["avg@4"]["value"] == got["metrics"]["pass@1"]["value"] == 0.5
    assert got["metrics"]["avg@4"]["stderr"] == pytest.approx(mean_stderr([0, 0.25, 0.5, 0.75, 1])[1])
    assert got["groups"]["e"] == {"value": 1.0, "rows": 1}
    assert got["macro"] == 0.5
    assert got["chance"] is None
    json.dumps(got, allow_nan=False)


def test_score_of_choices_knows_chance_and_subjects() -> None:
    rows = [{"choices": ["a"] * n, "subject": subject} for n, subject in ((4, "x"), (4, "x"), (5, "y"))]
    got = score(MMLU, [sample(0, value=1.0), sample(1, value=0.0), sample(2, value=1.0)], rows)
    assert got["chance"] == pytest.approx((0.25 + 0.25 + 0.2) / 3)
    assert got["groups"] == {"x": {"value": 0.5, "rows": 2}, "y": {"value": 1.0, "rows": 1}}
    assert (got["metrics"]["accuracy"]["value"], got["macro"]) == (pytest.approx(2 / 3), 0.75)


@pytest.mark.parametrize(
    ("samples", "rows", "reason"),
    [
        ([], None, "there are no samples"),
        ([sample(0), sample(1, value=None, reason="timeout")], None, "1 of 2 samples have no grade (1 timeout)"),
        (
            [sample(0, value=None, reason="timeout"), sample(1, value=None, reason="error")],
            None,
            "2 of 2 samples have no grade (1 error, 1 timeout)",
        ),
        ([sample(0), sample(1)], [{}] * 3, "2 of 3 samples are there"),
        ([sample(0), sample(0)], None, "1 samples are there twice"),
        ([sample(0), sample(1), sample(1, 1)], None, "3 of 2 samples are there"),
    ],
)
def test_no_score_without_every_grade(samples, rows, reason: str) -> None:
    got = score(GSM8K, samples, rows)
    assert got["reason"] == reason
    nothing = {"value": None, "stderr": None, "ci_low": None, "ci_high": None, "unit": "share"}
    assert got["metrics"] == {"pass@1": nothing}


def test_a_timeout_is_counted_apart_from_wrong_answers() -> None:
    samples = [
        sample(0, value=None, reason="timeout"),
        sample(1, value=0.0, stop="length", reason="no_answer"),
        sample(2, value=0.0, reason="wrong"),
    ]
    got = score(GSM8K, samples)
    assert (got["truncated"], got["no_answer"], got["errors"]) == (1, 1, 1)


def test_a_single_row_has_no_standard_error() -> None:
    got = score(GSM8K, [sample(0)])["metrics"]["pass@1"]
    assert (got["value"], got["stderr"]) == (1.0, None)
    assert 0 < got["ci_low"] < 1


def test_pass_at_k_of_a_kind_with_more_samples() -> None:
    kind = replace(MATH, repeats=4, metrics=("pass@2",))
    got = score(kind, [sample(0, repeat, float(repeat == 0)) for repeat in range(4)])
    assert got["metrics"]["pass@2"]["value"] == pytest.approx(0.5)


def test_z_is_that_of_95_percent() -> None:
    assert abs(statistics.Z - 1.959963984540054) < 1e-15


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="no metric is called 'rouge'"):
        score(replace(GSM8K, metrics=("rouge",)), [sample(0)])


def with_parts(row: int, repeat: int = 0, value: float = 1.0, **parts: float):
    return (row, repeat, value, "stop_token", "x", "right", "boxed", parts)


def test_a_part_of_the_grade_is_a_metric_of_its_name() -> None:
    kind = replace(MMLU, metrics=("accuracy", "acc_norm"), group_by="")
    got = score(kind, [with_parts(0, acc_norm=1.0), with_parts(1, value=0.0, acc_norm=1.0)])
    assert [got["metrics"][name]["value"] for name in ("accuracy", "acc_norm")] == [0.5, 1.0]
    assert got["routes"] == {"boxed": 2}


def test_a_corpus_measure_is_a_function_of_sums_with_a_clustered_error() -> None:
    kind = replace(MMLU, metrics=("inst_strict",), group_by="")
    rows = [(1.0, 1.0), (0.0, 2.0), (3.0, 3.0), (1.0, 2.0)]
    samples = [with_parts(row, followed_strict=good, instructions=all_) for row, (good, all_) in enumerate(rows)]
    got = score(kind, samples)["metrics"]["inst_strict"]
    assert got["value"] == 5 / 8
    ratio, n, mean = 5 / 8, 4, 2.0
    linearised = math.sqrt(sum((g - ratio * a) ** 2 for g, a in rows) / (n * (n - 1))) / mean
    assert got["stderr"] == pytest.approx(linearised, rel=0.25)


def test_bits_per_byte_is_no_share() -> None:
    kind = replace(MMLU, metrics=("bits_per_byte",), group_by="")
    got = score(kind, [with_parts(0, value=2.0, nats=2 * math.log(2), bytes=1.0)])["metrics"]["bits_per_byte"]
    assert (got["value"], got["unit"]) == (pytest.approx(2.0), "bits")


def test_votes_of_right_answers_are_one_class_whatever_their_spelling() -> None:
    kind = replace(MATH, repeats=4, metrics=("maj@4", "pass^2"), group_by="")
    texts = [("1/2", 1.0), ("0.5", 1.0), ("3", 0.0), ("4", 0.0)]
    samples = [(0, k, value, "stop_token", text, "right") for k, (text, value) in enumerate(texts)]
    got = score(kind, samples)
    assert got["metrics"]["maj@4"]["value"] == 1.0
    assert got["metrics"]["pass^2"]["value"] == pytest.approx(1 / 6)
    assert got["curves"]["pass"] == {"1": 0.5, "2": pytest.approx(5 / 6), "4": 1.0}
    assert set(got["curves"]["avg"]) == {"1", "2", "4"}
