r"""qwen-math-v1: the verdict of Qwen2.5-Math's evaluation (github.com/QwenLM/Qwen2.5-Math, evaluation/, MIT), own code.

The answer is found and normalised as there (qwen_strip), then two answers are equal if they are the same text without
case; or numbers within a relative 1e-4, where the reference, 100 times it and a hundredth of it all count; or, tuples,
matrices and equations part by part, if sympy finds them equal. Lenient on purpose: prefer math-text-v1 where no
comparison with published numbers is wanted.

sympy runs in the worker process; the original's second parser, which evaluates text as Python, has no counterpart here.
"""

import contextlib
import math
import re
from collections.abc import Iterator
from functools import partial

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.maths.lanes import WORKERS, AnswerClient, lanes
from rwkv_data.graders.maths.maths_worker import CPU_S, MathsClient, Overrun, WorkerGone
from rwkv_data.graders.maths.qwen_strip import answer_of, normal

TOLERANCE = 1e-4
_LETTERS = re.compile(r"\b(A|B|C|D|E)\b")
_BRACKETED = re.compile(r"(\(|\[).+(\)|\])")
_MATRIX_IN = re.compile(r"\{.*,.*\}")
_OPEN, _CLOSE = "\\begin{pmatrix}", "\\end{pmatrix}"
_DEEPEST = 4


def equal(process: MathsClient, predicted: str, gold: str, depth: int = 0) -> bool:
    """Whether two normal forms are equal by the original's math_equal. Raises what MathsClient.ask_twice raises."""
    if predicted.strip().lower() == gold.strip().lower():
        return True
    if gold in {"A", "B", "C", "D", "E"} and _letter(predicted) == gold:
        return True
    first, second = _number(predicted), _number(gold)
    if first is not None and second is not None:
        return any(math.isclose(item, first, rel_tol=TOLERANCE) for item in (second / 100, second, second * 100))
    if not predicted or depth > _DEEPEST:
        return False
    predicted, gold = predicted.strip(), gold.strip()
    if "pmatrix" in predicted and "pmatrix" not in gold:
        gold = _as_matrices(gold)
    return _by_structure(partial(equal, process, depth=depth + 1), process, predicted, gold)


def _by_structure(same: "partial[bool]", process: MathsClient, predicted: str, gold: str) -> bool:
    if _without_brackets(predicted, gold):
        return True
    if _BRACKETED.match(predicted) and _BRACKETED.match(gold) and _pairwise(same, predicted[1:-1], gold[1:-1], ","):
        return True
    if _is_matrix(predicted) and _is_matrix(gold) and _same_matrix(same, predicted, gold):
        return True
    equations = (predicted.count("="), gold.count("="))
    if equations == (1, 1):
        left, right = _difference(predicted), _difference(gold)
        if _symbolic(process, left, right) or _symbolic(process, f"-({left})", right):
            return True
    elif equations == (1, 0) and len(predicted.split("=", maxsplit=1)[0].strip()) <= 2:
        if same(predicted.split("=")[1], gold):
            return True
    elif (
        equations == (0, 1) and len(gold.split("=", maxsplit=1)[0].strip()) <= 2 and same(predicted, gold.split("=")[1])
    ):
        return True
    return _symbolic(process, predicted, gold)


def _letter(text: str) -> str:
    """Return the last of A to E that stands alone, in any case: the original's choice_answer_clean."""
    text = text.strip("\n").rstrip(".").rstrip("/").strip(" ").lstrip(":")
    found = _LETTERS.findall(text.upper())
    return (found[-1] if found else text.strip().strip(".")).rstrip(".").rstrip("/")


def _number(text: str) -> float | None:
    """Return a number, with or without commas, and a percentage divided by 100; None for any other text."""
    text = text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        pass
    if not text.endswith("%"):
        return None
    try:
        return float(text[:-1].removesuffix("\\")) / 100
    except ValueError:
        return None


def _without_brackets(predicted: str, gold: str) -> bool:
    if (predicted.startswith("[") and predicted.endswith("]") and not gold.startswith("(")) or (
        predicted.startswith("(") and predicted.endswith(")") and not gold.startswith("[")
    ):
        predicted, gold = predicted.strip("[]()"), gold.strip("[]()")
    table = str.maketrans("", "", "{}()")
    return predicted.translate(table).lower() == gold.translate(table).lower()


def _pairwise(same: "partial[bool]", predicted: str, gold: str, mark: str) -> bool:
    first, second = predicted.split(mark), gold.split(mark)
    return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))


def _is_matrix(text: str) -> bool:
    return text.startswith((_OPEN, "\\begin{bmatrix}")) and text.endswith((_CLOSE, "\\end{bmatrix}"))


def _same_matrix(same: "partial[bool]", predicted: str, gold: str) -> bool:
    first, second = (
        [line.strip() for line in text[len(_OPEN) : -len(_CLOSE)].split("\\\\") if line.strip()]
        for text in (predicted, gold)
    )
    return len(first) == len(second) and all(_pairwise(same, a, b, "&") for a, b in zip(first, second, strict=True))


def _as_matrices(text: str) -> str:
    """Return `{1,2}` as a matrix of one row."""
    found = _MATRIX_IN.findall(text.strip())
    return ", ".join(_OPEN + part.strip("{}").replace(",", "\\") + _CLOSE for part in found)


def _difference(equation: str) -> str:
    left, right = equation.split("=")
    return f"{left.strip()} - ({right.strip()})"


def _symbolic(process: MathsClient, predicted: str, gold: str) -> bool:
    return bool(process.ask_twice("qwen_equal", first=predicted, second=gold)["equal"])


def grade(process: MathsClient, row: Row, answer: Answer) -> Grade:
    """Grade by extraction, normal forms and equality. A comparison that takes too long is a timeout (wrong there,
    too)."""
    expected = str(row["answer"])
    predicted, route = answer_of(answer.text)
    if not predicted:
        return Grade(0.0, None, expected, "no_answer")
    try:
        right = equal(process, predicted, normal(expected))
    except Overrun as error:
        return Grade(0.0, predicted, expected, "timeout", str(error), route)
    except WorkerGone as error:
        return Grade(None, predicted, expected, "error", str(error), route)
    return Grade(float(right), predicted, expected, "right" if right else "wrong", route=route)


@contextlib.contextmanager
def _open(*, cpu_s: float = CPU_S) -> Iterator[GradeFunction]:
    with lanes(cpu_s) as shared:
        yield lambda row, answer: grade(AnswerClient(shared), row, answer)


GRADER = Grader(name="qwen-math-v1", version="2", open=_open, options={"cpu_s": CPU_S}, workers=WORKERS)
