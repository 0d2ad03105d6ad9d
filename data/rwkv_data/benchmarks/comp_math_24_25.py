r"""Competition maths of 2024 and 2025: 256 problems of AIME 2024, AIME 2025 and HMMT, as NeMo-Skills put them together.

    {"id": "aime25-0", "subset_for_metrics": "aime25", "problem": "...", "expected_answer": "70",
     "reference_solution": "..."}

The catch: 196 of the problems are HMMT's, whose answers are LaTeX in dollars, some with words in them ("$a+b i$ works
if and only if ..."), which no rule can compare. 60 of the problems are aime24's and aime25's.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import formula_row
from rwkv_data.prepare.row_shapes.question_sources import github
from rwkv_data.prepare.row_shapes.question_text import kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set

_FILE = "nemo_skills/dataset/comp-math-24-25/test.txt"


def from_source(raw: Row) -> dict[str, Any]:
    """The problem; which contest it is from is the group."""
    return formula_row(raw) | kept(raw, contest="subset_for_metrics", solution="reference_solution")


_ZERO = {"question": "Compute the sum.", "answer": "70"}
_SIDE = {"question": "Compute the side.", "answer": "\\frac{40 \\sqrt{3}}{39}"}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@4",), repeats=4, group_by="contest"), judged=True)

BENCHMARK = Benchmark(
    name="comp_math_24_25",
    version=1,
    domain="free_response",
    title="Competition maths of 2024 and 2025",
    licence="Apache-2.0 (NeMo-Skills); problems (c) MAA and HMMT, widely republished",
    split="test",
    rows=256,
    source=github(
        "NVIDIA/NeMo-Skills",
        "0b012df8a09cd4730d31b16e90a0d8f13d145fb8",
        {_FILE: "c83c51386c1bb15e26b665caf880e8158e57585bffb3579a824f93eec4c49190"},
    ),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("test.jsonl", "test.txt"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _ZERO, "70", "7"),
        Example(_SIDE, Answer("\\frac{40}{39}\\sqrt{3}", ("stop_token", "stop_token")), 1.0),
        Example(_SIDE, Answer("\\frac{40}{39}", ("stop_token", "stop_token")), 0.0),
    ),
)
