"""The symbolic part of Qwen2.5-Math's equality. Runs in the maths worker only."""

import math
from typing import Any

from rwkv_data.graders.maths.sum_parser import arithmetic
from rwkv_data.graders.maths.worker.latex_reader import latex_reader

TOLERANCE = 1e-4


def qwen_equal(first: str, second: str) -> dict[str, bool]:
    """Compare two texts as text, expressions, equations, numbers to a relative 1e-4, and matrices to three places."""
    a, b = _read(first), _read(second)
    return {"equal": any(_holds(test, a, b) for test in (_same, _simplified, _equations, _numbers, _matrices))}


def _holds(test: Any, a: Any, b: Any) -> bool:
    """Return the result of a test; False if it raises."""
    try:
        return bool(test(a, b))
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001
        return False


def _read(text: str) -> Any:
    """Return the first reading that does not fail, or the text itself."""
    from latex2sympy2_extended import latex2sympy

    for reader in (latex_reader(), lambda text: arithmetic(text.replace("^", "**")), latex2sympy):
        for variant in (text.replace("\\\\", "\\"), text):
            try:
                return reader(variant)
            except (MemoryError, RecursionError):
                raise
            except Exception:  # noqa: BLE001, S112  # each of the readers may raise anything
                continue
    return text


def _same(a: Any, b: Any) -> bool:
    return str(a) == str(b) or bool(a == b)


def _simplified(a: Any, b: Any) -> bool:
    from sympy import simplify

    return bool(a.equals(b) or simplify(a - b) == 0)


def _equations(a: Any, b: Any) -> bool:
    return bool(abs(a.lhs - a.rhs).equals(abs(b.lhs - b.rhs)))


def _numbers(a: Any, b: Any) -> bool:
    from sympy import N

    return math.isclose(float(N(b)), float(N(a)), rel_tol=TOLERANCE)


def _matrices(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    first, second = (matrix.applyfunc(lambda value: round(value, 3)) for matrix in (a, b))
    return bool(first.equals(second))
