"""What stands in the maths worker for those parts of sympy that evaluate or generate Python.

sympy is imported where it is used: a second that only the process pays which runs these tests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_data.graders.maths.sum_parser import arithmetic
from rwkv_data.graders.maths.worker.sympy_substitutes import Monomials, number, polynomial

PAYLOADS = [
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "exec('1')",
    "lambda: 1",
    "x.evalf",
    "[1 for _ in (1,)]",
    "1 if 1 else 2",
    "f'{1}'",
    "1;2",
    "1_000",
    "0x10",
    "1j",
    "٣",
    "1e5x",
    "",
    " ",
    "nan",
    "007",
]


@pytest.mark.parametrize(
    "text", ["0", "00", "7", "-7", "+7", "12345678901234567890", "1.5", ".5", "5.", "-1.25", "1e5", "1.5e-3"]
)
def test_numbers_are_what_sympy_makes_of_them(text: str) -> None:
    from sympy.parsing.sympy_parser import parse_expr

    ours, theirs = number(text), parse_expr(text)
    assert (ours, type(ours)) == (theirs, type(theirs))


@pytest.mark.parametrize("text", PAYLOADS)
def test_anything_else_is_refused(text: str) -> None:
    for read in (number, arithmetic):
        with pytest.raises(SyntaxError):
            read(text)


SUMS = st.recursive(
    st.integers(0, 99).map(str) | st.sampled_from(["1.5", ".25", "7."]),
    lambda inner: (
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "/"]), inner)
        | st.builds("({})".format, inner)
        | st.builds("-({})".format, inner)
        | st.builds("({})**{}".format, inner, st.integers(0, 3))
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(SUMS)
def test_sums_have_the_value_that_sympy_gives_them(text: str) -> None:
    from sympy.parsing.sympy_parser import parse_expr

    assert str(arithmetic(text).doit()) == str(parse_expr(text, evaluate=False).doit())


@pytest.mark.parametrize("text", ["1/2", "3*4+5", "2**3**2", "-2**2", "2**-1", "(1+2)*3", "1 - 2 - 3", "- 5"])
def test_sums_are_built_as_sympy_builds_them(text: str) -> None:
    from sympy.parsing.sympy_parser import parse_expr

    assert str(arithmetic(text)) == str(parse_expr(text, evaluate=False))


@pytest.mark.parametrize("text", ["1 2", "(1", "1)", "*1", "1+", "2(3)", "1//2"])
def test_what_is_no_sum_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError):
        arithmetic(text)


EXPONENTS = st.tuples(*[st.integers(0, 9)] * 3)


@settings(deadline=None)
@given(EXPONENTS, EXPONENTS, st.integers(0, 5))
def test_monomials_are_sympys(first: tuple[int, ...], second: tuple[int, ...], times: int) -> None:
    from sympy.polys.monomials import MonomialOps

    ours, theirs = Monomials(3), MonomialOps(3)
    for name in ("mul", "ldiv", "div", "lcm", "gcd"):
        assert getattr(ours, name)()(first, second) == getattr(theirs, name)()(first, second)
    assert ours.pow()(first, times) == theirs.pow()(first, times)
    assert ours.mulpow()(first, second, times) == theirs.mulpow()(first, second, times)


@settings(deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5), st.integers(-9, 9))
def test_polynomials_are_sympys(coefficients: list[int], at: int) -> None:
    from sympy import Poly, Symbol
    from sympy.utilities.lambdify import lambdify

    x = Symbol("x")
    expression = Poly(coefficients, x).as_expr()
    assert polynomial(x, expression)(at) == lambdify(x, expression)(at)


def test_no_polynomial_is_refused() -> None:
    from sympy import Symbol

    x, y = Symbol("x"), Symbol("y")
    for expression in (1 / x, x / 2, x**y, y * x):
        with pytest.raises(ValueError, match="no polynomial"):
            polynomial(x, expression)
