r"""GSM-Plus: 10,552 variations of GSM8K's test questions, eight of each (Li et al. 2024, arXiv 2402.19255).

    {"question": "...", "solution": "...", "answer": "18", "perturbation_type": "numerical substitution",
     "seed_question": "...", "seed_solution": "...", "seed_answer": "16"}

The catch: in one eighth of the rows ("critical thinking") a fact is missing and the answer is "None": there the right
answer is to say that it cannot be known, which gsm-plus-v1 reads and a number grader cannot. rwkv-skills asks 9,204 of
the rows, by a list of indices ("light" cleaning of NeMo-Skills) that is no part of the set; here all are asked, so the
numbers differ.
"""

import re
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Grade, Grader, HubSource, Row
from rwkv_data.graders.maths import number
from rwkv_data.graders.maths.boxed import inside_box
from rwkv_data.prepare.row_shapes.question_text import first_value, kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set

UNKNOWN = "None"
_UNKNOWABLE = re.compile(
    r"\b(?:none|not enough|insufficient|unknown|missing|unanswerable|undetermined|indeterminate)\b"
    r"|\b(?:cannot|can't|can not|could not|not possible to|impossible to) (?:be )?"
    r"(?:determin|know|answer|calculat|comput|say|tell)",
    re.IGNORECASE,
)


def from_source(raw: Row) -> dict[str, Any]:
    """The answer as text, "None" where there is none."""
    answer = str(first_value(raw, ("answer",))).strip().replace(",", "")
    row = {"question": rows.text(raw, "question"), "answer": answer}
    return row | kept(raw, solution="solution", perturbation="perturbation_type")


def check_row(row: Row) -> None:
    """A question row with the kind of its variation; the answer is a number or "None"."""
    rows.check_question(row)
    rows.text(row, "perturbation")


def grade(row: Row, answer: Answer) -> Grade:
    """gsm-plus-v1: number-v1, and for a question that has no answer whether the box says so."""
    if row["answer"] != UNKNOWN:
        return number.grade(row, answer)
    said = inside_box(answer.text)[:400]
    if not said:
        return Grade(0.0, None, UNKNOWN, "no_answer")
    unknowable = bool(_UNKNOWABLE.search(said.replace("\\text", " ").replace("\\ ", " ")))
    return Grade(float(unknowable), said, UNKNOWN, "right" if unknowable else "wrong", route="boxed")


_EGGS = {
    "question": "She sells 9 eggs for $2 each. How much does she earn?",
    "answer": "18",
    "perturbation": "numerical",
}
_LESS = {
    "question": "She sells her eggs for $2 each. What does she earn?",
    "answer": UNKNOWN,
    "perturbation": "critical",
}
_KINDS = maths_set(
    free_response(Grader.of("gsm-plus-v1", f"1+number-{number.NUMBER.version}", grade), group_by="perturbation")
)

BENCHMARK = Benchmark(
    name="gsm_plus",
    version=1,
    domain="free_response",
    title="GSM-Plus, GSM8K's questions varied in eight ways",
    licence="CC BY-SA 4.0 (as publicly known)",
    split="test",
    rows=10552,
    source=HubSource("qintongli/GSM-Plus", "default", "test"),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl", "test-*.jsonl", "data/test-*", "test-*.parquet"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _EGGS, "18", "16"),
        Example(_LESS, Answer("\\text{cannot be determined}", ("stop_token", "stop_token")), 1.0),
        Example(_LESS, Answer("None", ("stop_token", "stop_token")), 1.0),
        Example(_LESS, Answer("18", ("stop_token", "stop_token")), 0.0),
    ),
    schema_verified=False,
)
