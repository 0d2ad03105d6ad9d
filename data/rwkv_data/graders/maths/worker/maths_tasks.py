"""The tasks of the maths worker. They run in the child only; each takes and returns plain JSON values.

math-verify's own timeouts are off: they turn a hang into a wrong answer. It reads LaTeX alone here (`_parse`), for with
its second reader, which looks for numbers in whatever it could not read, `6 \\frac 5` would pass for 5.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from rwkv_data.graders.maths.worker import math_equality
from rwkv_data.graders.maths.worker.latex_reader import latex_reader
from rwkv_data.graders.maths.worker.qwen_tasks import qwen_equal

Reply = dict[str, Any]


def load() -> None:
    """Import the libraries of the tasks and use them once, so that little is imported later."""
    logging.disable(logging.CRITICAL)
    for gold, answer in (
        ("\\frac{1}{2}", "0.5"),
        ("x=2", "2"),
        ("(1,2]", "(1,3]"),
        ("x^2+1<5", "x<2"),
        ("\\{1\\}", "1"),
        ("x^2+y^2=4", "2x^2=5"),
        ("(-\\infty,1)\\cup(3,\\infty)", "x<1\\text{ or }x>3"),
    ):
        equal([gold], [answer])
    latex_reader()("\\frac{1}{2}")


def equal(golds: Sequence[str], answers: Sequence[str], places: int | None = None) -> Reply:
    """Whether any reading of the reference equals any reading of the answer. `read` is about the answer.

    `places`: to how many decimal places the reference may have been rounded; `rounded` says that it was the rounding.
    """
    parsed_golds = [parsed for text in golds if (parsed := _parse(text))]
    if not parsed_golds:
        return {"unreadable": True}
    parsed = [candidate for text in answers if (candidate := _parse(text))]
    pairs = [(gold, candidate) for gold in parsed_golds for candidate in parsed]
    same = any(math_equality.equal(gold, candidate) for gold, candidate in pairs)
    rounded = not same and places is not None and any(_rounds(*pair, places) for pair in pairs)
    read = any(not isinstance(candidate[0], str) for candidate in parsed)
    return {"equal": same or rounded, "rounded": rounded, "read": read}


def _rounds(gold: list[Any], answer: list[Any], places: int) -> bool:
    first, second = _float(gold[0]), _float(answer[0])
    return first is not None and second is not None and abs(first - second) <= 0.5 * 10**-places * (1 + 1e-9)


def matched(golds: Sequence[str], answers: Sequence[str], tolerance: float, relative: bool) -> Reply:
    """Whether the answers are the reference's, in any order, each within a tolerance if both are numbers."""
    parsed_golds, left = [_parse(text) for text in golds], [_parse(text) for text in answers]
    if not all(parsed_golds):
        return {"unreadable": True}
    for gold in parsed_golds:
        for index, candidate in enumerate(left):
            if candidate and (math_equality.equal(gold, candidate) or _near(gold, candidate, tolerance, relative)):
                del left[index]
                break
        else:
            return {"equal": False, "read": any(left)}
    return {"equal": not left, "read": True}


def _parse(text: str) -> list[Any]:
    import math_verify

    # Behind what it read stands the text as it normalised it; of what it cannot read, that text alone, and then two
    # are equal if their texts are.
    text = math_equality.readable(text)
    return list(math_verify.parse(f"$\\boxed{{{text}}}$", [math_verify.LatexExtractionConfig()], parsing_timeout=None))


def _near(gold: list[Any], answer: list[Any], tolerance: float, relative: bool) -> bool:
    if tolerance <= 0:
        return False
    first, second = _float(gold[0]), _float(answer[0])
    if first is None or second is None:
        return False
    return abs(first - second) <= tolerance * (abs(first) if relative else 1.0) * (1 + 1e-9)


def _float(value: Any) -> float | None:
    from sympy import Eq

    if isinstance(value, Eq):
        value = value.rhs
    try:
        return float(value.doit().evalf())
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        return None


def minerva_equal(first: str, second: str) -> Reply:
    """Whether the difference of two normal forms simplifies to zero, by sympy's LaTeX reader (as in minerva_math)."""
    from sympy import simplify

    read = latex_reader()
    try:
        equal = simplify(read(first) - read(second)) == 0
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001  # the parser may raise anything; the harness then calls the answers unequal
        return {"equal": False, "why": type(error).__name__}
    return {"equal": bool(equal)}


def verified(gold: str, completion: str) -> Reply:
    """Compare whole texts by math-verify with both of its readers, as lm_eval calls it."""
    import math_verify

    parsed_gold, parsed = (math_verify.parse(text, parsing_timeout=None) for text in (gold, completion))
    return {"equal": bool(math_verify.verify(gold=parsed_gold, target=parsed, timeout_seconds=None))}


TASKS: dict[str, Callable[..., Reply]] = {
    "equal": equal,
    "matched": matched,
    "minerva_equal": minerva_equal,
    "verified": verified,
    "qwen_equal": qwen_equal,
}
