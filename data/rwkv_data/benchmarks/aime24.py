r"""AIME 2024: the 30 problems of both papers, whose answers are whole numbers from 0 to 999 (MAA).

    Maxwell-Jia       {"ID": "2024-II-4", "Problem": "...", "Solution": "...", "Answer": 33}
    Qwen2.5-Math      {"id": 60, "problem": "...", "solution": "...", "answer": "033", "url": "...", "question": "..."}
    NeMo-Skills       {"id": "aime24-0", "problem": "...", "reference_solution": "...", "expected_answer": "73"}

The catch: one answer is 3.3 points. rwkv-skills draws 256 samples of each problem to report avg@16 and pass@8; here 16
samples give both (`--set k=256` is theirs). The sources' problems are in different orders; their answers agree.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import check_whole, competition_row
from rwkv_data.profiles import lm_eval_maths
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set
from rwkv_data.profiles.sampling import AIME24_COT

_SEATS = {"question": "Find the number of seatings.", "answer": "33"}
_FORMS = {lm_eval_maths.NAME: lambda answer: f" It is $\\boxed{{{answer}}}$."}
_KINDS = maths_set(
    free_response(GRADER, metrics=("avg@16", "pass@8"), repeats=16, cot=AIME24_COT), [lm_eval_maths.aime()], qwen=MATH
)

BENCHMARK = Benchmark(
    name="aime24",
    version=1,
    domain="free_response",
    title="AIME 2024",
    licence="(c) MAA, widely republished",
    split="train",
    rows=30,
    source=HubSource("Maxwell-Jia/AIME_2024", "default", "train"),
    from_source=competition_row,
    check_row=check_whole,
    local_files=("test.jsonl", "rwkv_skills_aime24_test.jsonl", "*.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _SEATS, "33", "34", _FORMS),
        Example(_SEATS, Answer("033", ("stop_token", "stop_token")), 1.0),
        Example(_SEATS, Answer("\\frac{66}{2}", ("stop_token", "stop_token")), 1.0),
    ),
)
