r"""CMATH: 600 word problems of Chinese primary schools, grades one to six (Wei et al. 2023, arXiv 2306.16636).

    {"grade": 1, "question": "芳芳买了一本书有99页，看了90页，她还剩多少页没有看？", "answer": "9", "reasoning_step": 1,
     "num_digits": 2}

The catch: answers are numbers, among them decimals, fractions (5/8) and a percentage; fractions need not be in lowest
terms (2/6). The question is Chinese, the words of the prompt around it are English, as rwkv-skills asks every such set.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_sources import qwen_set
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """The question; the school year is the group."""
    return {
        "question": rows.text(raw, "question"),
        "answer": rows.text(raw, "answer").strip(),
        "grade": str(rows.whole(raw, "grade")),
    }


def check_row(row: Row) -> None:
    """A question row with the school year."""
    rows.check_question(row)
    rows.text(row, "grade")


_PAGES = {"question": "一本书有99页，看了90页，还剩多少页？", "answer": "9", "grade": "1"}
_PART = {"question": "红花占几分之几？", "answer": "2/6", "grade": "3"}
_KINDS = maths_set(free_response(GRADER, group_by="grade"), qwen=())

BENCHMARK = Benchmark(
    name="cmath",
    version=1,
    domain="free_response",
    title="CMATH, word problems of Chinese primary schools",
    licence="CC BY 4.0 (as that project says)",
    split="test",
    rows=600,
    source=qwen_set("cmath", "e2ceabf05d10b37f207eaebbe8db24dbfc961e1a4f07337d2fc4db42a7f44fdb"),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _PAGES, "9", "8"),
        Example(_PART, Answer("\\frac{1}{3}", ("stop_token", "stop_token")), 1.0),
        Example(_PART, Answer("\\frac{1}{2}", ("stop_token", "stop_token")), 0.0),
    ),
)
