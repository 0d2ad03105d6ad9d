r"""MathOdyssey: 387 problems of schools, olympiads and universities (Fang et al. 2024, arXiv 2406.18321).

    {"Problem_1": {"question": "Let $S=...$ ... \\end{problem}\n\\noindent", "answer": "16\\\\\n\\noindent",
                   "reasoning": "...", "label": "Algebra", "level": "high school competition"}}

The catch: each line is an object of one problem, cut out of a LaTeX file with what stood around it: the ends of
environments and line breaks go. Over a quarter of the problems give choices in the text, and the answer is a letter.
"""

import re
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.definition.errors import RowError
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_sources import github
from rwkv_data.prepare.row_shapes.question_text import bare, kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set

_END = re.compile(r"[\s\\]*\\noindent\s*$")
_BREAKS = re.compile(r"[\s.]*(?:\\\\)?\s*$")


def from_source(raw: Row) -> dict[str, Any]:
    """Return the problem of the line without the remains of its LaTeX file."""
    problem = next((value for value in raw.values() if isinstance(value, dict)), None)
    if problem is None:
        raise RowError("the row holds no problem")
    question = rows.text(problem, "question").partition("\\end{problem}")[0].strip()
    answer = _BREAKS.sub("", _END.sub("", rows.text(problem, "answer")))
    row = {"question": question, "answer": bare(answer)}
    return row | kept(problem, solution="reasoning", topic="label", level="level")


def check_row(row: Row) -> None:
    """Check that a row is a question row with a `level`. Raises RowError."""
    rows.check_question(row)
    rows.text(row, "level")


_LEVEL = {"level": "high school competition"}
_LEAST = {"question": "The minimum value of $n$ is \\underline{\\hspace{2cm}}.", "answer": "16", **_LEVEL}
_CHOICE = {"question": "Which of these cannot be its value? A) 2022 B) 2025", "answer": "B", **_LEVEL}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@4",), repeats=4, group_by="level"))

BENCHMARK = Benchmark(
    name="math_odyssey",
    version=1,
    domain="free_response",
    title="MathOdyssey, schools to universities",
    licence="MIT",
    split="test",
    rows=387,
    source=github(
        "protagolabs/odyssey-math",
        "fe9e83df06111728e1b06ddaee0a60837c07d6c9",
        {"final-odyssey-math-with-levels.jsonl": "b3dab75dbfc9a07f1f6096e060790630cdff96a70e3adf92b692c9316294290a"},
    ),
    from_source=from_source,
    check_row=check_row,
    local_files=("final-odyssey-math-with-levels.jsonl", "test.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _LEAST, "16", "15"),
        Example(_CHOICE, Answer("\\text{B}", ("stop_token", "stop_token")), 1.0),
        Example(_CHOICE, Answer("A", ("stop_token", "stop_token")), 0.0),
    ),
)
