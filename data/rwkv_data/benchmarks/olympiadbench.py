r"""OlympiadBench: 675 problems of mathematical olympiads in English with a final answer and no picture (He et al. 2024,
arXiv 2402.14008; the part OE_TO_maths_en_COMP).

    {"id": 1606, "subfield": "Combinatorics", "context": null, "question": "...", "solution": ["..."],
     "final_answer": ["$69$,$84$"], "is_multiple_answer": true, "unit": null, "answer_type": "Numerical", "error": null}

The catch: 94 problems have several answers, whose order is free; 8 have a unit; one allows a tolerance. The grader
heeds all three, which string comparison and the evaluation of Qwen2.5-Math do not.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.definition.errors import RowError
from rwkv_data.graders.maths.olympiad import GRADER
from rwkv_data.prepare.row_shapes.question_sources import qwen_set
from rwkv_data.prepare.row_shapes.question_text import bare, kept
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """The problem with what its grading needs."""
    golds = rows.texts(raw, "final_answer")
    if len(golds) != 1:
        raise RowError(f"'final_answer' has {len(golds)} entries, not one")
    row = {
        "question": rows.text(raw, "question"),
        "answer": bare(golds[0]),
        "multiple": bool(raw.get("is_multiple_answer")),
    }
    return row | kept(raw, subject="subfield", tolerance="error", unit="unit", answer_type="answer_type")


_ONE = {"question": "How many moves does Sergey need?", "answer": "2", "multiple": False}
_BOTH = {"question": "Find all such numbers.", "answer": "69,84", "multiple": True}
_TIMES = {"question": "How many hours does it take?", "answer": "4.2", "multiple": False, "tolerance": "1e-1"}
_KINDS = maths_set(free_response(GRADER, group_by="subject"), qwen=MATH)

BENCHMARK = Benchmark(
    name="olympiadbench",
    version=1,
    domain="free_response",
    title="OlympiadBench, mathematical olympiads in English",
    licence="Apache-2.0 (OpenBMB/OlympiadBench, as publicly known)",
    split="test",
    rows=675,
    source=qwen_set("olympiadbench", "bb8c1e38a16ea9eacb77530315a674d883f267fbff79183effc53681b4fcc416"),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _ONE, "2", "3"),
        Example(_BOTH, Answer("84, 69", ("stop_token", "stop_token")), 1.0),
        Example(_BOTH, Answer("69", ("stop_token", "stop_token")), 0.0),
        Example(_TIMES, Answer("4.25", ("stop_token", "stop_token")), 1.0),
        Example(_TIMES, Answer("4.4", ("stop_token", "stop_token")), 0.0),
    ),
)
