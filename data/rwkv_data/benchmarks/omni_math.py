r"""Omni-MATH: 4,428 olympiad problems in 33 domains and ten grades of difficulty (Gao et al. 2024, arXiv 2410.07985).

    {"domain": ["Mathematics -> Algebra -> ..."], "difficulty": 8.0, "problem": "...", "solution": "...",
     "answer": "n+1", "source": "china_national_olympiad"}

The catch: answers are free text: formulas in or out of dollars, lists of functions, sentences, and for hundreds of
proofs nothing that a rule can compare. Its authors use a judge; a rule's score is a lower bound.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import formula_row
from rwkv_data.prepare.row_shapes.question_text import kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """Return the question row; its topic is the second level of the domain, as the first is always mathematics or
    applied."""
    domains = raw.get("domain") or ["unknown"]
    levels = str(domains[0] if isinstance(domains, list) else domains).split("->")
    return formula_row(raw) | {"topic": levels[min(1, len(levels) - 1)].strip()} | kept(raw, difficulty="difficulty")


def check_row(row: Row) -> None:
    """Check that a row is a question row with a `topic`. Raises RowError."""
    rows.check_question(row)
    rows.text(row, "topic")


_SUM = {"question": "Find the number of ways.", "answer": "36", "topic": "Algebra"}
_TERM = {"question": "Find the least such number.", "answer": "n+1", "topic": "Algebra"}
_KINDS = maths_set(free_response(GRADER, group_by="topic"))

BENCHMARK = Benchmark(
    name="omni_math",
    version=1,
    domain="free_response",
    title="Omni-MATH, olympiad problems",
    licence="Apache-2.0",
    split="test",
    rows=4428,
    source=HubSource("KbsdJames/Omni-MATH", "default", "test"),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl", "Omni-Math.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _SUM, "36", "35"),
        Example(_TERM, Answer("1+n", ("stop_token", "stop_token")), 1.0),
        Example(_TERM, Answer("n", ("stop_token", "stop_token")), 0.0),
    ),
    schema_verified=False,
)
