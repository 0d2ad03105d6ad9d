r"""BeyondAIME: 100 problems of the AIME's form, harder and new, with whole-number answers (ByteDance Seed, 2025).

    {"problem": "...", "answer": 32}

The catch: answers are not bounded by 999, so guessing is no help; the column holds numbers, not texts.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import check_whole, competition_row
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set
from rwkv_data.profiles.sampling import MATH_COT

_COUNT = {"question": "How many such numbers are there?", "answer": "1024"}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@16", "pass@8"), repeats=16, cot=MATH_COT))

BENCHMARK = Benchmark(
    name="beyond_aime",
    version=1,
    domain="free_response",
    title="BeyondAIME, 100 competition problems",
    licence="CC0 1.0 (as publicly known)",
    split="test",
    rows=100,
    source=HubSource("ByteDance-Seed/BeyondAIME", "default", "test"),
    from_source=competition_row,
    check_row=check_whole,
    local_files=("test.jsonl", "data/test-*.parquet", "*.parquet"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _COUNT, "1024", "1023"),
        Example(_COUNT, Answer("1{,}024", ("stop_token", "stop_token")), 1.0),
    ),
    schema_verified=False,
)
