r"""math-verify-v1 and math-text-v1: mathematical equality with the reference.

`math-verify-v1` grades the content of a box that the prompt has opened, `math-text-v1` a whole completion (extract).
Texts that differ only in their typesetting, answers in words and whole numbers are decided by their text (answer_text);
the rest goes to math-verify in a process of its own. Both sides are wrapped as `$\boxed{...}$` there, because it reads
nothing from bare LaTeX. Its comparison is the strict one: variables keep their names. `50\%` equals both 50 and 0.5.
What it gets wrong is compared by our own rules (answer_text, worker.math_equality). An answer that names several
candidates, denies or excludes is wrong unless the reference does so too (candidates). A reference with decimals accepts
what rounds to it; the route of such a grade ends in `, rounded`.

An answer that takes too much processor time or memory, twice, is a `timeout`: it counts as wrong, and is counted apart;
others do not wait for it (lanes).
A reference that is itself too slow or unreadable, and a worker that cannot run, are errors, without a verdict.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.extract import ExtractedAnswer, of_box, of_text
from rwkv_data.graders.maths import answer_text
from rwkv_data.graders.maths.lanes import WORKERS, AnswerClient, lanes
from rwkv_data.graders.maths.maths_worker import CPU_S, MathsClient, MathsWorker, Overrun, WorkerGone

__all__ = ["GRADER", "TEXT", "MathVerifyGrader", "asked", "decided", "equality", "in_process", "opener"]

VERSION = "4+math-verify-0.9"
ROUNDED = "rounded"
"""The remark on an answer that is right because it rounds to its reference."""
Compare = Callable[[MathsClient, Row, str], tuple[bool, str]]


def equality(process: MathsClient, gold: str, answer: str) -> tuple[bool, str]:
    """Return whether two answers are equal, and a remark. Raises what MathsClient.ask_twice raises, and Unreadable."""
    known = answer_text.verdict(gold, answer)
    if known is not None:
        return known != "different", ROUNDED if known == "rounded" else answer_text.objection(gold, answer)
    golds, answers = [answer_text.tidy(gold)], [answer_text.tidy(answer)]
    reply = asked(process, "equal", golds, answers, places=answer_text.places(gold))
    remark = ROUNDED if reply.get("rounded") else "" if reply["read"] else "math-verify reads nothing in it"
    return reply["equal"], remark


class UnreadableReference(Exception):  # noqa: N818  # an event: the reference's fault
    """The reference cannot be read, or is too slow by itself."""


def asked(process: MathsClient, do: str, golds: list[str], answers: list[str], **more: Any) -> dict[str, Any]:
    """Return a worker's reply. If a comparison overruns, the reference is first compared with a plain number, to find
    out whether the answer is at fault. Raises UnreadableReference if the reference is."""
    try:
        reply = process.ask_twice(do, golds=golds, answers=answers, **more)
    except Overrun:
        try:
            process.ask(do, golds=golds, answers=["0"] * len(golds), **more)
        except WorkerGone as error:
            if error.cause in {"killed", "machine"}:
                raise
            raise UnreadableReference(f"the reference alone is too much: {error}") from None
        raise
    if "unreadable" in reply:
        raise UnreadableReference("math-verify cannot read the reference")
    return reply


def decided(compare: Compare, process: MathsClient, row: Row, found: ExtractedAnswer) -> Grade:
    """Return the grade of an extracted answer, also if its comparison fails."""
    expected = str(row["answer"])
    if not found.text:
        return Grade(0.0, None, expected, "no_answer")
    try:
        right, remark = compare(process, row, found.text)
    except Overrun as error:
        return Grade(0.0, found.text, expected, "timeout", str(error), found.route)
    except (UnreadableReference, WorkerGone) as error:
        return Grade(None, found.text, expected, "error", str(error), found.route)
    route = f"{found.route}, {ROUNDED}" if remark == ROUNDED else found.route
    return Grade(float(right), found.text, expected, "right" if right else "wrong", remark, route)


def _equal(process: MathsClient, row: Row, text: str) -> tuple[bool, str]:
    return equality(process, str(row["answer"]), text)


class MathVerifyGrader(MathsWorker):
    """math-verify-v1 outside a job: a worker process with the grading function."""

    def grade(self, row: Row, answer: Answer) -> Grade:
        """Grade the content of the final box."""
        return decided(_equal, self, row, of_box(answer.text))

    def compare(self, gold: str, answer: str) -> dict[str, Any]:
        r"""Ask the child whether two contents of boxes are equal. Raises WorkerGone."""
        return self.ask("equal", golds=[gold], answers=[answer])


def opener(compare: Compare, extract: Callable[[str], ExtractedAnswer]) -> Callable[..., Any]:
    """Return the `Grader.open` of a grader that extracts, then compares in a worker process."""

    @contextlib.contextmanager
    def opened(*, cpu_s: float = CPU_S) -> Iterator[GradeFunction]:
        with lanes(cpu_s) as shared:
            yield lambda row, answer: decided(compare, AnswerClient(shared), row, extract(answer.text))

    return opened


def in_process(name: str, version: str, compare: Compare, extract: Callable[[str], ExtractedAnswer]) -> Grader:
    """Return a grader that compares in worker processes, which all its opened functions share."""
    return Grader(name=name, version=version, open=opener(compare, extract), options={"cpu_s": CPU_S}, workers=WORKERS)


# The version names the library's too: other releases give other verdicts (pyproject pins 0.9.*).
GRADER = in_process("math-verify-v1", VERSION, _equal, of_box)
TEXT = in_process("math-text-v1", "3+math-verify-0.9", _equal, of_text)
