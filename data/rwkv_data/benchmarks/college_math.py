r"""College Math: 2,818 exercises of nine open textbooks, algebra to vector calculus (Tang et al. 2024, MathScale,
arXiv 2403.02884).

    {"data_source": "college_math.Beginning_and_Intermediate_Algebra", "question_number": "exercise.0.4.61",
     "question": "Simplify: $-10-4(n-5)$", "answer": "$10-4 n$", "license": "...", "data_topic": "college_math.algebra"}

The catch: answers stand in dollars and are whatever a textbook prints at its end: several solutions with commas,
equations, conditions, "No solution : $\\oslash$", whole sentences. Many of them no rule can compare.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import formula_row
from rwkv_data.prepare.row_shapes.question_sources import qwen_set
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set
from rwkv_data.profiles.sampling import MATH_COT


def from_source(raw: Row) -> dict[str, Any]:
    """Return the exercise as a question row; `topic` is its group."""
    return formula_row(raw) | {"topic": rows.text(raw, "data_topic").removeprefix("college_math.")}


def check_row(row: Row) -> None:
    """Check that a row is a question row with a `topic`. Raises RowError."""
    rows.check_question(row)
    rows.text(row, "topic")


_SUM = {"question": "Add $30$ and $6$.", "answer": "36", "topic": "algebra"}
_TERM = {"question": "Simplify: $-10-4(n-5)$", "answer": "10-4 n", "topic": "algebra"}
_KINDS = maths_set(
    free_response(GRADER, metrics=("avg@8", "pass@8"), repeats=8, cot=MATH_COT, group_by="topic"), qwen=MATH
)

BENCHMARK = Benchmark(
    name="college_math",
    version=1,
    domain="free_response",
    title="College Math, exercises of open textbooks",
    licence="of each row: CC BY, CC BY-NC-SA, GFDL and others; in part non-commercial",
    split="test",
    rows=2818,
    source=qwen_set("college_math", "91131bc4a355b884fc63ef7c4f048c35adb030004a4cb07b1475698f120aa4a6"),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _SUM, "36", "35"),
        Example(_TERM, Answer("-4n+10", ("stop_token", "stop_token")), 1.0),
        Example(_TERM, Answer("-4n-30", ("stop_token", "stop_token")), 0.0),
    ),
)
