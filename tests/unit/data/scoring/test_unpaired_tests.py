"""Comparing two shares by their numbers alone: Fisher's p against other computations of it, and Newcombe's interval."""

import math
import random
from fractions import Fraction

import pytest
from effort import bounded
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.scoring.unpaired_tests import compare_shares, fisher, share_difference


@st.composite
def tables(draw: st.DrawFn, most: int = 25) -> tuple[int, int, int, int]:
    """(right in A, rows of A, right in B, rows of B)."""
    n_a, n_b = draw(st.integers(1, most)), draw(st.integers(1, most))
    return draw(st.integers(0, n_a)), n_a, draw(st.integers(0, n_b)), n_b


def exact(right_a: int, n_a: int, right_b: int, n_b: int) -> Fraction:
    """The p of Fisher's test as it is defined, without rounding anything."""
    right = right_a + right_b
    ways = {found: math.comb(n_a, found) * math.comb(n_b, right - found) for found in range(right + 1)}
    return Fraction(sum(many for many in ways.values() if many <= ways[right_a]), math.comb(n_a + n_b, right))


@given(tables())
def test_small_tables_have_the_p_that_counting_all_of_them_gives(table: tuple[int, int, int, int]) -> None:
    assert fisher(*table) == pytest.approx(float(exact(*table)), rel=1e-9)


def test_scipy_finds_the_same_p() -> None:
    stats = pytest.importorskip("scipy.stats", reason="needs scipy: not installed")
    source = random.Random(20261128)
    for most in (12, 150, 1319, 14_042):
        for _ in range(25):
            n_a, n_b = source.randint(1, most), source.randint(1, most)
            share = source.random()
            right_a = min(n_a, round(n_a * share))
            right_b = min(n_b, max(0, round(n_b * share + source.gauss(0, 2) * math.sqrt(n_b) / 2)))
            p = stats.fisher_exact([[right_a, n_a - right_a], [right_b, n_b - right_b]]).pvalue
            assert fisher(right_a, n_a, right_b, n_b) == pytest.approx(p, rel=1e-6, abs=1e-300), (right_a, n_a, right_b)


@given(tables(most=3000))
def test_p_is_a_probability_and_the_same_whichever_side_is_a_and_whatever_counts_as_right(
    table: tuple[int, int, int, int],
) -> None:
    right_a, n_a, right_b, n_b = table
    p = fisher(*table)
    assert 0 <= p <= 1
    assert p == pytest.approx(fisher(right_b, n_b, right_a, n_a), rel=1e-6)
    assert p == pytest.approx(fisher(n_a - right_a, n_a, n_b - right_b, n_b), rel=1e-6)
    assert (p > 0) or abs(right_a / n_a - right_b / n_b) > 0.1, "only what no float can hold is nothing"


def test_all_wrong_against_all_right_is_as_unlikely_as_it_can_be() -> None:
    for rows in (1, 5, 100, 500):
        assert fisher(0, rows, rows, rows) == pytest.approx(2 / math.comb(2 * rows, rows), rel=1e-9)
    assert fisher(0, 10, 0, 10) == fisher(10, 10, 10, 10) == fisher(0, 1, 0, 10**7) == 1
    assert 0 <= fisher(0, 10**6, 10**6, 10**6) < 1e-300


@pytest.mark.parametrize("share", [0.5, 0.9, 0.001])
def test_ten_million_rows_are_tested_as_normal_theory_says(share: float) -> None:
    rows = 10**7
    right = round(share * rows)
    for deviations in (0.5, 2.0, 4.0):
        more = round(deviations * math.sqrt(2 * rows * share * (1 - share)))
        with bounded("Fisher's test"):
            p = fisher(right, rows, right + more, rows)
        pooled = (2 * right + more) / (2 * rows)
        z = (more - 1) / math.sqrt(
            2 * rows * pooled * (1 - pooled)
        )  # a half is taken off each side, as counts are whole
        assert p == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.03)


def test_the_interval_is_that_of_the_paper() -> None:
    found = share_difference(48 / 80, 80, 56 / 70, 70)  # Newcombe 1998, table II, case a, method 10
    assert found.value == pytest.approx(0.2)
    assert (round(found.ci_low, 4), round(found.ci_high, 4)) == (0.0524, 0.3339)
    assert found.stderr == pytest.approx(math.sqrt(0.6 * 0.4 / 80 + 0.8 * 0.2 / 70))
    back = share_difference(56 / 70, 70, 48 / 80, 80)
    assert (back.ci_low, back.ci_high) == pytest.approx((-found.ci_high, -found.ci_low))


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((3, 10, 9, 10), 0.1705, 0.8090),
        ((0, 29, 5, 56), -0.0381, 0.1926),
        ((0, 20, 10, 10), 0.6791, 1.0),
        ((0, 10, 10, 10), 0.6075, 1.0),
    ],
)
def test_the_intervals_of_its_small_samples_are_too(table: tuple[int, int, int, int], low: float, high: float) -> None:
    right_a, n_a, right_b, n_b = table
    found = share_difference(right_a / n_a, n_a, right_b / n_b, n_b)
    assert (round(found.ci_low, 4), round(found.ci_high, 4)) == (low, high)


@given(st.floats(0, 1), st.integers(1, 10**7), st.floats(0, 1), st.integers(1, 10**7))
def test_an_interval_holds_its_difference_and_no_impossible_one(a: float, n_a: int, b: float, n_b: int) -> None:
    found = share_difference(a, n_a, b, n_b)
    assert -1 <= found.ci_low <= found.value <= found.ci_high <= 1
    assert found.ci_high - found.ci_low > 0


@given(tables())
def test_shares_that_were_rounded_for_print_give_the_p_of_their_counts(table: tuple[int, int, int, int]) -> None:
    right_a, n_a, right_b, n_b = table
    found = compare_shares(round(right_a / n_a, 4), n_a, round(right_b / n_b, 4), n_b)
    assert found.p == fisher(*table)
    assert found.difference.value == pytest.approx(right_b / n_b - right_a / n_a, abs=2e-4)
