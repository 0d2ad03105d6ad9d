"""Substitutes in the maths worker for those parts of sympy that would compile Python (see no_evaluation)."""

import re
from collections.abc import Callable
from typing import Any

Exponents = tuple[int, ...]
_INTEGER = re.compile(r"([+-]?)(0+|[1-9][0-9]*)")
_DECIMAL = re.compile(r"([+-]?)((?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)")


def number(text: str, *_: Any, **__: Any) -> Any:
    """Parse a plain number as sympy's parse_expr does. Raises SyntaxError for any other text, as parse_expr does."""
    from sympy import Float, Integer

    if match := _INTEGER.fullmatch(text.strip()):
        value = Integer(int(match[2]))
    elif match := _DECIMAL.fullmatch(text.strip()):
        value = Float(match[2])
    else:
        raise SyntaxError(f"no plain number: {text[:40]!r}")
    return -value if match[1] == "-" else value


def polynomial(symbol: Any, expression: Any, **__: Any) -> Callable[[Any], Any]:
    """Return the function that sympy's lambdify makes of a polynomial with whole coefficients. Raises ValueError for
    any other expression."""
    from sympy import Poly
    from sympy.polys.polyerrors import BasePolynomialError

    try:
        coefficients = [int(value) for value in Poly(expression, symbol, domain="ZZ").all_coeffs()]
    except (BasePolynomialError, TypeError) as error:
        raise ValueError("no polynomial with whole coefficients") from error

    def value(at: Any) -> Any:
        total = 0 * at
        for coefficient in coefficients:
            total = total * at + coefficient
        return total

    return value


class Monomials:
    """Arithmetic of exponents, each function as sympy's MonomialOps generates it for a number of variables."""

    def __init__(self, _variables: int) -> None:
        pass

    def mul(self) -> Callable[[Exponents, Exponents], Exponents]:
        return lambda first, second: tuple(a + b for a, b in zip(first, second, strict=True))

    def pow(self) -> Callable[[Exponents, int], Exponents]:
        return lambda first, times: tuple(a * times for a in first)

    def mulpow(self) -> Callable[[Exponents, Exponents, int], Exponents]:
        return lambda first, second, times: tuple(a + b * times for a, b in zip(first, second, strict=True))

    def ldiv(self) -> Callable[[Exponents, Exponents], Exponents]:
        return lambda first, second: tuple(a - b for a, b in zip(first, second, strict=True))

    def div(self) -> Callable[[Exponents, Exponents], Exponents | None]:
        def quotient(first: Exponents, second: Exponents) -> Exponents | None:
            found = tuple(a - b for a, b in zip(first, second, strict=True))
            return None if any(a < 0 for a in found) else found

        return quotient

    def lcm(self) -> Callable[[Exponents, Exponents], Exponents]:
        return lambda first, second: tuple(max(a, b) for a, b in zip(first, second, strict=True))

    def gcd(self) -> Callable[[Exponents, Exponents], Exponents]:
        return lambda first, second: tuple(min(a, b) for a, b in zip(first, second, strict=True))
