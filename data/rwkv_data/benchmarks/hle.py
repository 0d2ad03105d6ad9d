r"""Humanity's Last Exam: 2,158 questions of many fields that need no picture (Phan et al. 2025, arXiv 2501.14249).

    {"id": "...", "question": "...", "image": "", "image_preview": null, "answer": "...", "answer_type": "exactMatch",
     "author_name": "...", "rationale": "...", "rationale_image": null, "raw_subject": "...", "category": "Math",
     "canary": "..."}

The catch: of its 2,500 questions those with a picture are left out. Answers are short texts of any kind (a letter for
`multipleChoice`), so a judge is needed: the rule accepts only what is plainly equal, and a rule's score is a lower
bound. Access must be asked for, and its authors ask that rows are never published in plain text.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.judges import hle
from rwkv_data.profiles.free_response import free_response, free_response_judge
from rwkv_data.profiles.maths_set import examples
from rwkv_data.profiles.sampling import MATH_COT


def from_source(raw: Row) -> dict[str, Any] | None:
    """Return the question row; None for a question with a picture."""
    if raw.get("image"):
        return None
    return {
        "question": rows.text(raw, "question"),
        "answer": rows.text(raw, "answer").strip(),
        "category": rows.text(raw, "category"),
        "answer_type": rows.text(raw, "answer_type"),
        "id": rows.text(raw, "id"),
    }


def check_row(row: Row) -> None:
    """Check that a row is a question row with a `category`. Raises RowError."""
    rows.check_question(row)
    rows.text(row, "category")


_DEPTH = {"question": "How deep is it, in metres?", "answer": "11", "category": "Other", "answer_type": "exactMatch"}
_RULED = free_response(GRADER, metrics=("avg@8", "pass@8"), repeats=8, cot=MATH_COT, group_by="category")
_KINDS = by_name([free_response_judge(_RULED, hle.RULE, default=True), _RULED])

BENCHMARK = Benchmark(
    name="hle",
    version=1,
    domain="free_response",
    title="Humanity's Last Exam, questions without pictures",
    licence="MIT; its authors ask not to publish the rows",
    split="test",
    rows=2158,
    private=True,
    source=HubSource("cais/hle", "default", "test", files=("data/test-*.parquet",), gated=True),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl", "data/test-*.parquet", "test-*.parquet"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _DEPTH, "11", "12"),
        Example(_DEPTH, Answer("11 \\text{ m}", ("stop_token", "stop_token")), 1.0, "free_response"),
    ),
    schema_verified=False,
)
