"""The benchmarks' own ways to compare outputs."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.graders.code.compare_outputs import (
    EvalplusRule,
    all_close,
    all_floats,
    digit_distance,
    polynomial,
    pyramid_surface,
    same_lines,
    same_value,
    same_value_or_first,
)
from rwkv_data.graders.code.mbpp_inputs import mbpp_plus_arguments
from rwkv_data.sandbox.codec import Opaque


@pytest.mark.parametrize(
    ("out", "expected", "atol", "same"),
    [
        (1, 1, 0, True),
        (1.0, 1, 0, True),
        (True, 1, 0, True),
        (1, 2, 0, False),
        ([1, 2], (1, 2), 0, False),
        (0.1 + 0.2, 0.3, 0, True),
        (0.30001, 0.3, 0, False),
        ([0.1 + 0.2, 1.0], [0.3, 1.0], 0, True),
        ((0.1 + 0.2,), [0.3], 0, False),
        ([[0.1 + 0.2]], [[0.3]], 0, False),
        ([[0.1 + 0.2]], [[0.3]], 1e-4, True),
        ([0.3], [0.3, 0.3], 1e-4, False),
        ("a", "b", 1e-4, False),
        (["a", 0.1 + 0.2], ["a", 0.3], 1e-4, False),
        (0, 0.0000001, 0, False),
        (1, 1.00000001, 0, False),
        (math.nan, math.nan, 0, False),
        (math.inf, math.inf, 0, True),
        (5.0, math.inf, 0, False),
        (10**400, 1.5, 0, False),
        (None, 1.5, 0, False),
        (Opaque("f", 0, None, truth=True), 1.5, 0, False),
        ({1: 0.1 + 0.2}, {1: 0.3}, 1e-4, False),
    ],
)
def test_evalplus(out: Any, expected: Any, atol: float, same: bool) -> None:
    assert EvalplusRule("f", atol, mbpp=True).accepts(out, expected, []) is same
    assert EvalplusRule("f", atol, mbpp=False).accepts(out, expected, []) is same


def test_the_tolerance_stays_once_floats_were_expected() -> None:
    rule = EvalplusRule("f", 0, mbpp=False)
    assert not rule.accepts([[1.0000000001]], [[1.0]], [])
    assert rule.accepts(1.0, 1.0, [])
    assert rule.accepts([[1.0000000001]], [[1.0]], [])


def test_special_oracles() -> None:
    assert EvalplusRule("find_zero", 1e-4, mbpp=False).accepts(-5.0, 123, [[-10, -2]])
    assert not EvalplusRule("find_zero", 1e-4, mbpp=False).accepts(5.0, 5.0, [[-10, -2]])
    assert not EvalplusRule("find_zero", 1e-4, mbpp=False).accepts("x", 5.0, [[-10, -2]])
    assert EvalplusRule("are_equivalent", 0, mbpp=True).accepts("anything", True, [])
    assert EvalplusRule("sum_div", 0, mbpp=True).accepts(0, 7, [])
    assert EvalplusRule("Diff", 0, mbpp=True).accepts([2, 1], [1, 2, 2], [])
    assert not EvalplusRule("Diff", 0, mbpp=True).accepts(3, [3], [])
    assert not EvalplusRule("Diff", 0, mbpp=False).accepts([2, 1], [1, 2], [])
    match = Opaque("Match", 0, None, truth=True)
    assert EvalplusRule("check_str", 0, mbpp=True).accepts("Valid", match, [])
    assert EvalplusRule("check_str", 0, mbpp=True).accepts(True, match, [])
    assert not EvalplusRule("check_str", 0, mbpp=True).accepts(False, match, [])
    assert not EvalplusRule("check_str", 0, mbpp=True).accepts(None, match, [])
    assert EvalplusRule("surface_Area", 0, mbpp=True).accepts(35, 0, [3, 4])
    assert EvalplusRule("digit_distance_nums", 0, mbpp=True).accepts(1, 0, [1, 2])
    assert not EvalplusRule("digit_distance_nums", 0, mbpp=True).accepts(1, 0, [])


def test_what_the_oracles_compute() -> None:
    assert polynomial([1, 2, 3], 2.0) == 17.0
    assert pyramid_surface(3, 4) == round(9 + 2 * 3 * math.sqrt(1.5**2 + 16))
    assert digit_distance(23, 156) == 1 + 3 + 3
    assert all_floats([1.0, 2.0])
    assert not all_floats([])
    assert not all_floats([1.0, 2])
    assert all_close(1 + 1j, 1 + 1.0000001j, 1e-6)


@pytest.mark.parametrize(
    ("output", "expected", "rtol", "same"),
    [
        ("1\n2\n", "1\n2", 0, True),
        (" 1 \n2", "1\n2 ", 0, True),
        ("1 2", "1\n2", 0, False),
        ("1.0", "1", 0, True),
        ("1.50 2", "1.5 2.0", 0, True),
        ("1e2", "100", 0, True),
        ("0.333333", "0.333334", 0, False),
        ("0.333333", "0.333334", 1e-5, True),
        ("0.3333", "0.3334", 1e-5, False),
        ("50000000000000000", "50000000000000001", 0, False),
        ("Yes", "YES", 0, False),
        ("1000000000", "1000000007", 1e-5, False),
        ("1000000000.0", "1000000007", 1e-5, False),
        ("123456789012345678901", "123456789012345678902", 1e-5, False),
        ("7 1000000000", "7 1000000007", 1e-5, False),
        ("+5", "5", 1e-5, True),
        ("5.000000000000001", "5", 1e-5, True),
        ("1000000000", "1000000007.0", 1e-5, True),
        ("1000000000", "1.000000007e9", 1e-5, True),
        ("5 inf", "5.0 inf", 1e-5, True),
        ("5", "inf", 1e-5, False),
        ("inf", "5.0", 1e-5, False),
        ("nan", "nan", 0, True),
        ("nan 1", "nan 1.0", 1e-5, False),
        ("1 x", "1.0 x", 1e-5, False),
        ("1e999999999 1", "1 1.0", 1e-5, False),
        ("", "", 0, True),
        ("", "0", 0, False),
        ("1\n\n2", "1\n2", 0, False),
        ("٣", "3", 0, True),
    ],
)
def test_printed_lines(output: str, expected: str, rtol: float, same: bool) -> None:
    assert same_lines(output, expected, rtol=rtol) is same


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(output: str, expected: str) -> None:
    assert same_lines(output, output)
    assert same_lines(output, expected, rtol=1e-5) in {True, False}


def test_values_of_contests() -> None:
    assert same_value((1, 2), [1, 2])
    assert not same_value([(1, 2)], [[1, 2]])
    assert same_value_or_first(5, [5])
    assert same_value_or_first([(1, 2)], [[[1, 2]]])
    assert not same_value_or_first(5, [4, 5])
    assert same_value_or_first([], [])
    assert not same_value_or_first(None, [])


@pytest.mark.parametrize(
    ("task", "arguments", "expected"),
    [
        (1, [[1, 2], 3], [[1, 2], 3]),
        (2, [[3, 4], [5]], [(3, 4), (5,)]),
        (63, [[[1, 2], [3, 4]]], [[(1, 2), (3, 4)]]),
        (75, [[[6, 24]], 6], [[(6, 24)], 6]),
        (106, [[5], [9, 10]], [[5], (9, 10)]),
        (115, [[[1], [2], []]], [[{1}, {2}, {}]]),
        (124, ["0.0", "(1+2j)"], [0.0, 1 + 2j]),
        (250, [[10, 8], 4], [(10, 8), 4]),
        (252, ["(1+2j)"], [1 + 2j]),
        (259, [[[1, 3]], [[6, 7]]], [((1, 3),), ((6, 7),)]),
        (278, [[1, [2], "ab"]], [(1, (2,), "ab")]),
        (307, [["HELLO", []], 1, 50], [("HELLO", []), 1, 50]),
        (580, [[4, [7, [6]]]], [(4, (7, (6,)))]),
        (722, [{"C": [6.2, 70]}, 6.0], [{"C": (6.2, 70)}, 6.0]),
    ],
)
def test_inputs_of_mbpp_plus(task: int, arguments: list[Any], expected: list[Any]) -> None:
    found = mbpp_plus_arguments(task, arguments)
    assert repr(found) == repr(expected)
