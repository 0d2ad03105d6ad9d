r"""MATH and its subsets: problems whose solution holds the answer in its last `\boxed{...}`.

    {"problem": "...", "level": "Level 3", "type": "Algebra", "solution": "... $\\boxed{2}$ ..."}

A circulating copy of the training problems has answers only; such a row has no solution, and four of them no answer.
"""

from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.benchmark import HubSource
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row
from rwkv_data.graders.maths.boxed import last_box
from rwkv_data.prepare.row_shapes.question_text import kept

_REPOSITORY = "EleutherAI/hendrycks_math"
_SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
TEST = HubSource(_REPOSITORY, _SUBJECTS[0], "test", configs=_SUBJECTS)
TRAIN = HubSource(_REPOSITORY, _SUBJECTS[0], "train", configs=_SUBJECTS)
TRAIN_FILES = ("train.jsonl", "train_answers_only.json")


def math_row(raw: Row) -> dict[str, Any]:
    """A problem with its solution, and the answer that stands in the solution's box."""
    solution = rows.text(raw, "solution")
    answer = last_box(solution)
    if not answer:
        raise RowError("'solution' has no answer in a box")
    row = {"question": rows.text(raw, "problem"), "answer": answer, "solution": solution}
    return row | kept(raw, subject="type", level="level")


def math_example(raw: Row) -> dict[str, Any] | None:
    """A training problem, with its solution where the copy has it; None for one without an answer."""
    if raw.get("solution"):
        return math_row(raw)
    if not raw.get("answer"):
        return None
    return {"question": rows.text(raw, "problem"), "answer": rows.text(raw, "answer")}
