r"""How lm_eval 0.4.13 grades completions on MATH, MATH-500 and AIME, with the same verdict on every sample.

- lm_eval-minerva-math-v1: the value is `exact_match` (the sentence "Final Answer: ...", Minerva's normal form, equal as
  text or their difference simplifies to zero), the part `math_verify` the harness's other column: math-verify on the
  whole completion against the whole solution. sympy's LaTeX reader and math-verify run in the worker process only.
- lm_eval-hendrycks-math-v1: the text between the first and the last `$`, or all of it, by string equality.
- lm_eval-aime-v1: the last box, else as hendrycks_math.

The harness stops either column after 5 s and calls it wrong; here the limit is processor time, and it is `timeout`.
"""

import contextlib
from collections.abc import Iterator

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.maths import hendrycks, minerva_rules
from rwkv_data.graders.maths.lanes import WORKERS, AnswerClient, lanes
from rwkv_data.graders.maths.maths_worker import CPU_S, MathsClient, Overrun, WorkerGone

_LONGEST = 50_000


def grade_minerva(process: MathsClient, row: Row, answer: Answer) -> Grade:
    """Grade by both metrics of minerva_math: the value is `exact_match`, the part `math_verify` the other."""
    solution = str(row.get("solution") or "")
    boxed = hendrycks.last_boxed(solution)
    expected = str(row["answer"]) if boxed is None else boxed
    predicted = minerva_rules.extracted_answer(answer.text)
    try:
        exact, slow = _exact(process, minerva_rules.normal(predicted), minerva_rules.normal(expected))
        verified, slow_too = _verified(process, solution if boxed is not None else f"${expected}$", answer.text)
    except WorkerGone as error:
        return Grade(None, predicted, expected, "error", str(error), "sentence")
    parts = {"math_verify": float(verified)}
    if predicted == minerva_rules.INVALID:
        return Grade(float(exact), None, expected, "no_answer", parts=parts)
    if slow and not exact:
        return Grade(0.0, predicted, expected, "timeout", slow, "sentence", parts)
    return Grade(float(exact), predicted, expected, "right" if exact else "wrong", slow_too, "sentence", parts)


def _exact(process: MathsClient, answer: str, gold: str) -> tuple[bool, str]:
    if answer and answer == gold:
        return True, ""
    if answer == minerva_rules.INVALID:
        return False, ""
    try:
        return process.ask_twice("minerva_equal", first=answer, second=gold)["equal"], ""
    except Overrun as error:
        return False, str(error)


def _verified(process: MathsClient, gold: str, completion: str) -> tuple[bool, str]:
    try:
        reply = process.ask_twice("verified", gold=gold, completion=completion[-_LONGEST:])
    except Overrun as error:
        return False, f"math-verify: {error}"
    return reply["equal"], ""


@contextlib.contextmanager
def _open(*, cpu_s: float = CPU_S) -> Iterator[GradeFunction]:
    with lanes(cpu_s) as shared:
        yield lambda row, answer: grade_minerva(AnswerClient(shared), row, answer)


def grade_hendrycks(row: Row, answer: Answer) -> Grade:
    """Grade by `exact_match` of hendrycks_math; the reference is the last box of the solution, or else `answer`."""
    boxed = hendrycks.last_boxed(str(row.get("solution") or ""))
    expected = str(row["answer"]) if boxed is None else boxed
    return _by_text(*_between_dollars(answer.text), expected)


def grade_aime(row: Row, answer: Answer) -> Grade:
    """Grade by `exact_match` of aime24 and aime25: the last box, or else the text between dollars."""
    boxed = hendrycks.last_boxed(answer.text)
    found = _between_dollars(answer.text) if boxed is None else (boxed, "boxed")
    return _by_text(*found, str(row["answer"]))


def _between_dollars(text: str) -> tuple[str, str]:
    first, last = text.find("$"), text.rfind("$")
    return (text, "all") if first == last else (text[first + 1 : last], "dollars")


def _by_text(extracted: str, route: str, expected: str) -> Grade:
    right = hendrycks.same(extracted, expected)
    if not extracted.strip() and not right:
        return Grade(0.0, None, expected, "no_answer")
    return Grade(float(right), extracted, expected, "right" if right else "wrong", route=route)


MINERVA = Grader(
    name="lm_eval-minerva-math-v1",
    version="1+lm_eval-0.4.13+math-verify-0.9",
    open=_open,
    options={"cpu_s": CPU_S},
    workers=WORKERS,
)
HENDRYCKS = Grader.of("lm_eval-hendrycks-math-v1", "1+lm_eval-0.4.13", grade_hendrycks)
AIME = Grader.of("lm_eval-aime-v1", "1+lm_eval-0.4.13", grade_aime)
