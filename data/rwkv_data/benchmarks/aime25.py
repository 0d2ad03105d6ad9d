r"""AIME 2025: the 30 problems of both papers, whose answers are whole numbers from 0 to 999 (MAA).

    math-ai           {"problem": "...", "answer": "70", "id": "0"}
    NeMo-Skills       {"id": "aime25-0", "problem": "...", "expected_answer": "70", "reference_solution": "..."}

The catch: one answer is 3.3 points, so many samples of each problem are drawn; in some copies an answer has a degree
sign.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import check_whole, competition_row
from rwkv_data.profiles import lm_eval_maths
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set
from rwkv_data.profiles.sampling import MATH_COT

_BASES = {"question": "Find the sum of all integer bases.", "answer": "70"}
_FORMS = {lm_eval_maths.NAME: lambda answer: f" It is $\\boxed{{{answer}}}$."}
_KINDS = maths_set(
    free_response(GRADER, metrics=("avg@16", "pass@8"), repeats=16, cot=MATH_COT), [lm_eval_maths.aime()], qwen=MATH
)

BENCHMARK = Benchmark(
    name="aime25",
    version=1,
    domain="free_response",
    title="AIME 2025",
    licence="(c) MAA, widely republished",
    split="test",
    rows=30,
    source=HubSource("math-ai/aime25", "default", "test"),
    from_source=competition_row,
    check_row=check_whole,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _BASES, "70", "71", _FORMS),
        Example(_BASES, Answer("49+21=70", ("stop_token", "stop_token")), 1.0),
    ),
)
