r"""ASDiv: 2,305 word problems of primary schools (Miao et al. 2020, ACL 2020.acl-main.92).

    xml    <Problem ID="nluds-0001" Grade="1" Source="..."><Body>Seven red apples ...</Body><Question>How many ...
           </Question><Solution-Type>Addition</Solution-Type><Answer>9 (apples)</Answer><Formula>7+2=9</Formula>
    Qwen   {"body": "...", "question": "...", "solution_type": "Addition", "answer": "9 (apples)", "formula": "7+2=9"}

The catch: the unit stands in brackets behind the answer and is no part of it. Over a hundred answers are no numbers:
ratios (3:4), times of day (11:45 p.m.), names, "They are equal"; several questions have two answers. The copy with the
evaluation of Qwen2.5-Math has 2,215 of the problems.
"""

import re
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_sources import github
from rwkv_data.prepare.row_shapes.question_text import first_text, kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples import GSM8K
from rwkv_data.profiles.maths_set import examples, maths_set

_UNIT = re.compile(r"\s*\([^()]*\)")


def from_source(raw: Row) -> dict[str, Any]:
    """The story and its question; units in brackets go."""
    question = f"{first_text(raw, ('body', 'Body')).strip()} {first_text(raw, ('question', 'Question')).strip()}"
    gold = first_text(raw, ("answer", "Answer"))
    row = {"question": question, "answer": _UNIT.sub("", gold).strip() or gold.strip("( )")}
    return row | (kept(raw, topic="solution_type") or kept(raw, topic="Solution-Type"))


_APPLES = {"question": "Seven red apples and two green apples are in the basket. How many are there?", "answer": "9"}
_RATIO = {"question": "What is the ratio of cats to dogs?", "answer": "3:4"}
_WHO = {"question": "Who has more marbles?", "answer": "Bryan"}
_KINDS = maths_set(free_response(GRADER), qwen=GSM8K)

BENCHMARK = Benchmark(
    name="asdiv",
    version=1,
    domain="free_response",
    title="ASDiv, word problems of primary schools",
    licence="CC BY-NC 4.0: non-commercial",
    split="test",
    rows=2305,
    source=github(
        "chaochun/nlu-asdiv-dataset",
        "883f90a9a65bf00304ba8f37423910fe743abc47",
        {"dataset/ASDiv.xml": "ef8904068482919ac48c8eeaaf6df344b8a308ba66d048c2d4d87eab82dc4929"},
    ),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("ASDiv.xml", "test.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _APPLES, "9", "5"),
        Example(_RATIO, Answer("3:4", ("stop_token", "stop_token")), 1.0),
        Example(_RATIO, Answer("4:3", ("stop_token", "stop_token")), 0.0),
        Example(_WHO, Answer("\\text{Bryan}", ("stop_token", "stop_token")), 1.0),
        Example(_WHO, Answer("\\text{Sara}", ("stop_token", "stop_token")), 0.0),
    ),
)
