r"""Corrections to math-verify's equality. Runs in the maths worker only.

math-verify calls two equations equal when it can solve neither, compares decimals to six places after the point however
small they are, takes the difference of two huge constants for zero, tells equations apart that differ by a factor,
reads `x < 1 \text{ or } x > 3` as a set of relations, and compares what it has read as infinite or not at all.
"""

import re
from typing import Any

_TOLERANCE = 1e-6
_REPEATING = re.compile(r"([0-9]{0,20})\.([0-9]{0,20})\\overline\{([0-9]{1,20})\}")
_SUBSCRIPT = re.compile(r"_\s*\{\s*\\(?:text|mathrm|mbox|rm|textrm)\s*\{([^{}]{0,40})\}\s*\}")


def equal(gold: list[Any], answer: list[Any]) -> bool:
    """Whether a parsed answer equals the parsed reference."""
    import math_verify
    from sympy import nan, zoo

    same = math_verify.verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True)
    first, second = gold[0], answer[0]
    if isinstance(first, str) or isinstance(second, str):
        return bool(same) and str(first).count("{") == str(first).count(
            "}"
        )  # not if it was cut in the middle of a group
    if first.has(zoo, nan) or second.has(zoo, nan):
        return False
    try:
        return not _refuted(first, second) if same else _equivalent(first, second)
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001  # sympy may raise anything; then math-verify's result stands
        return bool(same)


def readable(text: str) -> str:
    r"""Rewrite text that math-verify cannot read: `0.\overline{3}` as a fraction, `x_{\text{max}}` as `x_{max}`."""
    return _repeating_as_fraction(_SUBSCRIPT.sub(r"_{\1}", text))


def _repeating_as_fraction(text: str) -> str:
    def fraction(match: re.Match[str]) -> str:
        whole, start, period = match[1] or "0", match[2], match[3]
        below = int("9" * len(period)) * 10 ** len(start)
        above = int(whole + start + period) - int(whole + start)
        return f"\\frac{{{above}}}{{{below}}}"

    return _REPEATING.sub(fraction, text)


def _refuted(gold: Any, answer: Any) -> bool:
    """Whether two expressions differ that math-verify takes for equal."""
    from sympy import Eq, Expr, Tuple

    if isinstance(gold, Eq) and isinstance(answer, Eq):
        return gold.free_symbols != answer.free_symbols or not (_proportional(gold, answer) or _solvable(gold))
    if isinstance(gold, Tuple) and isinstance(answer, Tuple):
        return any(_refuted(one, other) for one, other in zip(gold.args, answer.args, strict=True))
    if isinstance(gold, Expr) and isinstance(answer, Expr) and not (gold.free_symbols or answer.free_symbols):
        return not _percent(gold, answer) and _apart(gold, answer)
    return False


def _percent(gold: Any, answer: Any) -> bool:
    """Return whether exactly one of the two is a percentage. Then both its number and a hundredth of it are right."""
    from sympy import UnevaluatedExpr

    return bool(gold.has(UnevaluatedExpr)) != bool(answer.has(UnevaluatedExpr))


def _apart(gold: Any, answer: Any) -> bool:
    """Whether two constants differ in the first six digits that count."""
    first, second = gold.doit().evalf(20), answer.doit().evalf(20)
    return bool(abs(first - second) > _TOLERANCE * max(abs(first), abs(second)))


def _equivalent(gold: Any, answer: Any) -> bool:
    """Whether two expressions are equal that math-verify tells apart."""
    from sympy import Eq, Set

    if isinstance(gold, Eq) and isinstance(answer, Eq):
        return _proportional(gold, answer)
    if isinstance(gold, Set) and (union := _union(answer)) is not None:
        return bool(gold == union)
    if isinstance(answer, Set) and (union := _union(gold)) is not None:
        return bool(answer == union)
    return False


def _proportional(gold: Any, answer: Any) -> bool:
    """Whether two equations, brought to one side, differ by a constant factor."""
    from sympy import MatrixBase, MatrixExpr, simplify

    if any(isinstance(side, MatrixBase | MatrixExpr) for side in (*gold.args, *answer.args)):
        return (gold.lhs, gold.rhs) in ((answer.lhs, answer.rhs), (answer.rhs, answer.lhs))
    first, second = gold.lhs - gold.rhs, answer.lhs - answer.rhs
    if first.free_symbols != second.free_symbols:
        return False
    if not first.free_symbols:
        return bool(simplify(first - second) == 0 or simplify(first + second) == 0)
    ratio = simplify(first / second)
    return bool(not ratio.free_symbols and ratio.is_finite and ratio.is_zero is False)


def _solvable(equation: Any) -> bool:
    """Whether there are solutions, so that math-verify has compared something."""
    from sympy import solve

    return bool(solve(equation, equation.free_symbols))


def _union(relations: Any) -> Any:
    """Return the union of the solutions of several relations, if an expression is a set of relations; else None."""
    from sympy import FiniteSet, Union
    from sympy.core.relational import Relational
    from sympy.logic.boolalg import And

    if not (hasattr(relations, "args") and relations.args and isinstance(relations, FiniteSet)):
        return None
    if not all(isinstance(part, Relational | And) for part in relations.args):
        return None
    return Union(*(part.as_set() for part in relations.args))
