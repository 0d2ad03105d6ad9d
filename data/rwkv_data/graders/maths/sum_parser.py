"""Sums of plain numbers, read without evaluating them as Python."""

import re
from typing import Any

from rwkv_data.graders.maths.worker.sympy_substitutes import number

_TOKEN = re.compile(r"\s*(?:(\*\*|[-+*/()])|((?:[0-9]+\.?[0-9]*|\.[0-9]+)))")


def arithmetic(text: str) -> Any:
    """Parse a sum of plain numbers with `+ - * / **` and brackets, unevaluated, as parse_expr(evaluate=False) does.
    Raises SyntaxError for any other text."""
    return _Arithmetic(text).whole()


class _Arithmetic:
    """Recursive descent with Python's precedences. Deep nesting ends in RecursionError, which the caller catches."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise SyntaxError(f"no arithmetic: {text[:40]!r}")
            self._tokens.append(match[1] or match[2])
            position = match.end()
        self._tokens.reverse()

    def whole(self) -> Any:
        value = self._sum()
        if self._tokens:
            raise SyntaxError("something follows the sum")
        return value

    def _next(self, *wanted: str) -> str:
        return self._tokens.pop() if self._tokens and (not wanted or self._tokens[-1] in wanted) else ""

    def _sum(self) -> Any:
        from sympy import Add, Mul

        terms = [self._product()]
        while sign := self._next("+", "-"):
            term = self._product()
            terms.append(term if sign == "+" else Mul(-1, term, evaluate=False))
        return terms[0] if len(terms) == 1 else Add(*terms, evaluate=False)

    def _product(self) -> Any:
        from sympy import Mul, Pow

        factors = [self._signed()]
        while sign := self._next("*", "/"):
            factor = self._signed()
            factors.append(factor if sign == "*" else Pow(factor, -1, evaluate=False))
        return factors[0] if len(factors) == 1 else Mul(*factors, evaluate=False)

    def _signed(self) -> Any:
        sign = self._next("+", "-")
        if not sign:
            return self._power()
        value = self._signed()
        return -value if sign == "-" else value

    def _power(self) -> Any:
        from sympy import Pow

        base = self._atom()
        return Pow(base, self._signed(), evaluate=False) if self._next("**") else base

    def _atom(self) -> Any:
        if not self._next("("):
            return number(self._next())
        value = self._sum()
        if not self._next(")"):
            raise SyntaxError("a bracket stays open")
        return value
