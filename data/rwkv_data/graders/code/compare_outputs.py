"""Compare outputs with the expected ones by the rules of each benchmark's own grader. Plain values and text only.

Sources: evalplus `eval/__init__.py` and `eval/_special_oracle.py` (26d6d00), LiveCodeBench `testing_util.py` (28fef95),
APPS `testing_util.py` as SkyThought keeps it. NumPy's `allclose` is written out, because the sandbox has no NumPy.
"""

import cmath
import math
import re
from collections.abc import Sequence
from typing import Any

# evalplus: tasks whose output is not compared by equality
_AS_SETS = {
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum"),
    *("intersection_array", "find_dissimilar", "Diff"),
}
_NOT_NONE = {"check_str", "text_match_three", "text_starta_endb"}
_FLOAT_ATOL = 1e-6
_RTOL = 1e-7
_LONGEST_LINE = 100_000
_WHOLE = re.compile(r"[+-]?[\d_]+")


class EvalplusRule:
    """evalplus's comparison for one run over the inputs of a task.

    It has a memory, as there: once an expected output consists of floats, 1e-6 stays the tolerance of the run.
    """

    def __init__(self, entry_point: str, atol: float, *, mbpp: bool) -> None:
        self._entry_point = entry_point
        self._atol = atol
        self._mbpp = mbpp

    def accepts(self, out: Any, expected: Any, arguments: Sequence[Any]) -> bool:
        """Whether the output of one input is accepted. One that cannot be compared is not."""
        try:
            return self._accepts(out, expected, arguments)
        except (ArithmeticError, TypeError, ValueError, RecursionError):
            return False

    def _accepts(self, out: Any, expected: Any, arguments: Sequence[Any]) -> bool:
        if self._entry_point == "find_zero" and not self._mbpp:
            return abs(polynomial(arguments[0], out)) <= self._atol
        equal = self._mbpp_equal(out, expected, arguments) if self._mbpp else bool(out == expected)
        if self._atol == 0 and all_floats(expected):
            self._atol = _FLOAT_ATOL
        return equal or (self._atol != 0 and type(out) is type(expected) and all_close(out, expected, self._atol))

    def _mbpp_equal(self, out: Any, expected: Any, arguments: Sequence[Any]) -> bool:
        name = self._entry_point
        if name in _AS_SETS:
            return set(out) == set(expected)
        if name in _NOT_NONE:
            wanted = expected is not None
            return out == wanted if isinstance(out, bool) else wanted == (out is not None)
        return bool(out == expected) or self._other_reading(name, out, arguments)

    def _other_reading(self, name: str, out: Any, arguments: Sequence[Any]) -> bool:
        """Whether the output is right by the other reading of Mbpp/164, 295, 581 and 558, which are ambiguous."""
        match name:
            case "are_equivalent":
                return True
            case "sum_div":
                return bool(out == 0)
            case "surface_Area":
                return bool(abs(out - pyramid_surface(*arguments)) <= self._atol)
            case "digit_distance_nums":
                return bool(out == digit_distance(*arguments))
            case _:
                return False


def polynomial(coefficients: Sequence[float], x: float) -> float:
    """Return the value at x; the coefficient of the lowest power comes first."""
    return sum(coefficient * math.pow(x, power) for power, coefficient in enumerate(coefficients))


def pyramid_surface(base_edge: float, height: float) -> int:
    """Return the surface of a square pyramid of that height, rounded."""
    slant = math.sqrt((base_edge / 2) ** 2 + height**2)
    return round(base_edge**2 + 2 * base_edge * slant)


def digit_distance(left: int, right: int) -> int:
    """Return the sum of the differences of the digits, the shorter number padded with zeros."""
    width = max(len(str(left)), len(str(right)))
    pairs = zip(str(left).zfill(width), str(right).zfill(width), strict=True)
    return sum(abs(int(one) - int(other)) for one, other in pairs)


def all_floats(value: Any) -> bool:
    """Whether a value is a float, or a list or tuple of floats only."""
    if isinstance(value, list | tuple) and value:
        return all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def all_close(out: Any, expected: Any, atol: float) -> bool:
    """Whether numbers are within the tolerance, in lists of the same shape. A value that is no number is not close."""
    if isinstance(expected, list | tuple):
        if not isinstance(out, list | tuple) or len(out) != len(expected):
            return False
        return all(all_close(one, other, atol) for one, other in zip(out, expected, strict=True))
    if not (isinstance(out, int | float | complex) and isinstance(expected, int | float | complex)):
        return False
    if out == expected:
        return True
    return cmath.isfinite(expected) and abs(out - expected) <= atol + _RTOL * abs(expected)


def same_lines(output: str, expected: str, *, rtol: float = 0.0) -> bool:
    """Whether two outputs have the same text or numbers on every line, ignoring outer blanks (LiveCodeBench).

    With a relative tolerance numbers may also differ by that much, or by 1e-8 (APPS; `numpy.allclose`). The relative
    one is not for an expected whole number: 1000000000 is not 1000000007, as it is for `allclose`.
    """
    lines, wanted = ([line.strip() for line in text.strip().split("\n")] for text in (output, expected))
    return len(lines) == len(wanted) and all(
        one == other or _same_numbers(one, other, rtol) for one, other in zip(lines, wanted, strict=True)
    )


def _same_numbers(line: str, wanted: str, rtol: float) -> bool:
    from decimal import Decimal, InvalidOperation  # not in every fork

    if max(len(line), len(wanted)) > _LONGEST_LINE:
        return False
    try:
        numbers, others = ([Decimal(word) for word in text.split()] for text in (line, wanted))
        if numbers == others:
            return True
        if not rtol or len(numbers) != len(others):
            return False
        atol, fraction = Decimal("1e-8"), Decimal(repr(rtol))
        shares = [0 if _WHOLE.fullmatch(word) else fraction for word in wanted.split()]
        return all(
            number == other or (other.is_finite() and abs(number - other) <= atol + share * abs(other))
            for number, other, share in zip(numbers, others, shares, strict=True)
        )
    except (InvalidOperation, ArithmeticError, ValueError):
        return False


def same_value(out: Any, expected: Any) -> bool:
    """Whether two values are equal, a tuple counting as a list (LiveCodeBench)."""
    return bool((list(out) if isinstance(out, tuple) else out) == expected)


def same_value_or_first(out: Any, expected: Any) -> bool:
    """Whether a value is the expected one, or the first of the expected list, in which APPS and TACO wrap some
    outputs."""
    if same_value(out, expected):
        return True
    if not isinstance(expected, list) or not expected:
        return False
    rows = [list(item) if isinstance(item, tuple) else item for item in out] if isinstance(out, list | tuple) else out
    return same_value(out, expected[0]) or bool(rows == expected[0])
