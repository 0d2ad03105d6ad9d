r"""Algebra222: 222 word problems of algebra textbooks with numbers as answers (He-Yueya et al. 2023, arXiv 2304.09102).

    question,final_answer,section,source
    "Margo is 5 years old and Ivan is 34 years older ...",39,Translation,

The catch: a csv file with quoted commas; 39 answers are decimals, some of them negative.
"""

from typing import Any

from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.number import NUMBER
from rwkv_data.prepare.row_shapes.question_rows import check_number, number_row
from rwkv_data.prepare.row_shapes.question_sources import github
from rwkv_data.prepare.row_shapes.question_text import kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """The question; the book's section is its topic."""
    return number_row(raw) | kept(raw, topic="section")


_CHANGE = {"question": "What was the temperature in 1920?", "answer": "-0.27", "topic": "Properties of Equations"}
_KINDS = maths_set(free_response(NUMBER, metrics=("avg@4",), repeats=4))

BENCHMARK = Benchmark(
    name="algebra222",
    version=1,
    domain="free_response",
    title="Algebra222, word problems",
    licence="CC BY-SA 4.0",
    split="test",
    rows=222,
    source=github(
        "joyheyueya/declarative-math-word-problem",
        "7dc99c39f53e108103a84ff8c7ef5d4857ad34ff",
        {"algebra222.csv": "9fa0171d2d427c5b3df1c3ba543317e32366ca5d2c0a843f55d40cec6b528a28"},
    ),
    from_source=from_source,
    check_row=check_number,
    local_files=("algebra222.csv", "test.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _CHANGE, "-0.27", "0.27"),
        Example(_CHANGE, Answer("-0.27^\\circ", ("stop_token", "stop_token")), 1.0),
    ),
)
