r"""Minerva's 272 problems of MIT courses in physics, chemistry, economics and maths (Lewkowycz et al. 2022).

    {"problem": "Each of the two Magellan telescopes ...", "solution": "... \\boxed{1.6} \\mathrm{~cm}", "type":
     "Introduction to Astronomy (8.282J Spring 2006)", "idx": 0}

The catch: most answers are measured quantities to two or three digits, often as 4.5e33, whose unit the question names;
the grader allows one per cent. rwkv-skills and the evaluation of Qwen2.5-Math call this set minerva_math, a name that
lm-evaluation-harness has for something else (see math_minerva).
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.minerva_ocw import GRADER
from rwkv_data.prepare.row_shapes.question_math import math_row
from rwkv_data.prepare.row_shapes.question_sources import qwen_set
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MINERVA_OCW
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """As a problem of MATH; the course is the subject. One answer is written as Python: np.arcsin(10/13)."""
    row = math_row(raw)
    return row | {"answer": row["answer"].replace("np.", "\\")}


_IMAGE = {"question": "What is the image's diameter in cm?", "answer": "1.6", "solution": "\\boxed{1.6}"}
_POWER = {"question": "What is the power in ergs per second?", "answer": "4.5e33", "solution": "\\boxed{4.5e33}"}
_KINDS = maths_set(
    free_response(GRADER, metrics=("avg@4",), repeats=4, group_by="subject"), judged=True, qwen=MINERVA_OCW
)

BENCHMARK = Benchmark(
    name="minerva_ocw",
    version=1,
    domain="free_response",
    title="Minerva's OCW courses, undergraduate science and maths",
    licence="CC BY-NC-SA 4.0 (MIT OpenCourseWare, as publicly known): non-commercial",
    split="test",
    rows=272,
    source=qwen_set("minerva_math", "0e656b430d3a0a1dab6aa853f453ba3805e28e2cabe4fc72486a897cc09d8ba2"),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _IMAGE, "1.6", "16"),
        Example(_POWER, Answer("4.5 \\times 10^{33}", ("stop_token", "stop_token")), 1.0),
        Example(_POWER, Answer("4.5 \\times 10^{32}", ("stop_token", "stop_token")), 0.0),
    ),
)
