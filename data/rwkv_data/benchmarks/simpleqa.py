r"""SimpleQA Verified: 1,000 short questions of fact, cleaned (Haas et al. 2025, arXiv 2509.07968; SimpleQA: Wei et al.
2024).

    original_index,problem,answer,topic,answer_type,multi_step,requires_reasoning,urls
    5,"Who received the ...?",Michio Sugeno,Science and technology,Person,False,False,"https://..."

The catch: a csv file whose cells hold commas, quotes and line breaks, which rwkv-skills splits at every comma. Answers
are names, dates and numbers in free form, so a judge grades three ways: correct, incorrect, not attempted; the rule
accepts only the same words, and a rule's score is a lower bound.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.graders.text import GRADER
from rwkv_data.judges import simpleqa
from rwkv_data.prepare.row_shapes.question_text import kept
from rwkv_data.profiles.free_response import free_response, free_response_judge
from rwkv_data.profiles.maths_set import examples


def from_source(raw: Row) -> dict[str, Any]:
    """Return the question row; `topic` is its group."""
    row = {"question": rows.text(raw, "problem"), "answer": rows.text(raw, "answer").strip()}
    return row | {"topic": rows.text(raw, "topic")} | kept(raw, answer_type="answer_type", id="original_index")


def check_row(row: Row) -> None:
    """Check that a row is a question row with a `topic`. Raises RowError."""
    rows.check_question(row)
    rows.text(row, "topic")


_PRIZE = {"question": "Who received the prize in 2010?", "answer": "Ada Lovelace", "topic": "Science and technology"}
_RULED = free_response(GRADER, group_by="topic")
_KINDS = by_name([free_response_judge(_RULED, simpleqa.RULE, default=True), _RULED])

BENCHMARK = Benchmark(
    name="simpleqa",
    version=1,
    domain="free_response",
    title="SimpleQA Verified, short questions of fact",
    licence="MIT (as publicly known)",
    split="train",
    rows=1000,
    source=HubSource("codelion/SimpleQA-Verified", "default", "train", files=("simpleqa_verified.csv",)),
    from_source=from_source,
    check_row=check_row,
    local_files=("simpleqa_verified.csv", "*.csv", "test.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _PRIZE, "Ada Lovelace", "Charles Babbage"),
        Example(_PRIZE, Answer("ada  lovelace", ("stop_token", "stop_token")), 1.0, "free_response"),
    ),
    schema_verified=False,
)
