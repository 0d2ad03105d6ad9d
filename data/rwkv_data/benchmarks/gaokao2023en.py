r"""Gaokao 2023 in English: 385 problems of that year's Chinese university entrance papers (Liao et al. 2024, MARIO,
arXiv 2401.08190).

    {"source": "2023BJ_.../01Q.en", "question": "Given sets $M=...$, find $M \\cap N$.", "lang": "en",
     "answer": "$\\{x|-2\\leq x < 1\\}$"}

The catch: answers stand in dollars; 176 are no plain numbers but sets, intervals, equations of curves, words ("a
necessary but not a sufficient condition"), several values. Two rows have it at the end of the question ("... answers:
$\\frac{3}{10}$") and nothing in its place: here they are put right; others ask them with the answer and count every
reply as wrong.
"""

import re
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import formula_row
from rwkv_data.prepare.row_shapes.question_sources import qwen_set
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set

_LEAKED = re.compile(r"[Aa]nswers?:\s*(?P<answer>[^:]+)$")


def from_source(raw: Row) -> dict[str, Any]:
    """The question; an answer that slipped into it goes where it belongs."""
    question = rows.text(raw, "question")
    leaked = _LEAKED.search(question) if raw.get("answer") == "" else None
    if leaked:
        return formula_row({"question": question[: leaked.start()].strip(), "answer": leaked["answer"]})
    return formula_row(raw)


_POWER = {"question": "What is the coefficient of $x$?", "answer": "80"}
_ROOT = {"question": "What is its conjugate?", "answer": "-1-\\sqrt{3}"}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@16",), repeats=16), judged=True, qwen=MATH)

BENCHMARK = Benchmark(
    name="gaokao2023en",
    version=1,
    domain="free_response",
    title="Gaokao 2023 in English",
    licence="none stated for the translated papers; MIT (evaluation of Qwen2.5-Math)",
    split="test",
    rows=385,
    source=qwen_set("gaokao2023en", "654d8f49bdb86f578c171dbc0dd8f4d9f1bf3d7a7438f60359fda7d643df4951"),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _POWER, "80", "8"),
        Example(_ROOT, Answer("-(1+\\sqrt{3})", ("stop_token", "stop_token")), 1.0),
        Example(_ROOT, Answer("-1+\\sqrt{3}", ("stop_token", "stop_token")), 0.0),
    ),
)
