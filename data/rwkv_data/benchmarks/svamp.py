r"""SVAMP: 1,000 word problems varied so that shallow reading fails (Patel et al. 2021, arXiv 2103.07191).

    {"ID": "chal-1", "Body": "Each pack of dvds costs 76 dollars. If there is a discount of 25 dollars on each pack",
     "Question": "How much do you have to pay to buy each pack?", "Equation": "( 76.0 - 25.0 )", "Answer": 51.0,
     "Type": "Subtraction"}

The catch: answers are floats (51.0), all of them whole; the story's last sentence often has no full stop, and gets one
before the question follows. 300 of these rows circulate as a test split; here all 1,000 are asked.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.number import NUMBER
from rwkv_data.prepare.row_shapes.question_rows import check_number
from rwkv_data.prepare.row_shapes.question_sources import github
from rwkv_data.prepare.row_shapes.question_text import first_value, kept, number
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples import GSM8K
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """The story, closed by a full stop, and its question."""
    story, question = rows.text(raw, "Body").strip(), rows.text(raw, "Question").strip()
    stop = "" if story.endswith((".", "!", "?")) else "."
    row = {"question": f"{story}{stop} {question}", "answer": number(first_value(raw, ("Answer",)))}
    return row | kept(raw, topic="Type")


_PACKS = {"question": "Each pack costs 76 dollars, less 25. How much do you pay for a pack?", "answer": "51"}
_KINDS = maths_set(free_response(NUMBER), qwen=GSM8K)

BENCHMARK = Benchmark(
    name="svamp",
    version=1,
    domain="free_response",
    title="SVAMP, varied word problems",
    licence="MIT",
    split="test",
    rows=1000,
    source=github(
        "arkilpatel/SVAMP",
        "689d7ccac74b9983a2ac7cc3b264f441b99e7c53",
        {"SVAMP.json": "5be77703a6d891ae476d7c082787ad361392aa02453b132516cdd5f4e7934e3e"},
    ),
    from_source=from_source,
    check_row=check_number,
    local_files=("SVAMP.json", "test.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _PACKS, "51", "101"),
        Example(_PACKS, Answer("\\$51.00", ("stop_token", "stop_token")), 1.0),
    ),
)
