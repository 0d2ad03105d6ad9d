r"""AMC 2023: 40 problems of the AMC 12, asked without their choices (Mathematical Association of America).

    {"id": 0, "problem": "...", "answer": 27.0, "url": "https://...", "question": "..."}

The catch: answers are stored as floats (27.0), all of them whole; they become "27". `problem` and `question` are the
same text.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import check_whole, number_row
from rwkv_data.prepare.row_shapes.question_sources import qwen_set
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set

_MILES = {"question": "How many miles from City $A$ will they be?", "answer": "27"}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@4",), repeats=4), judged=True, qwen=MATH)

BENCHMARK = Benchmark(
    name="amc23",
    version=1,
    domain="free_response",
    title="AMC 12 of 2023",
    licence="(c) MAA, widely republished",
    split="test",
    rows=40,
    source=qwen_set("amc23", "43707e1ca784602d8479de24ee8ce36609dbebc46dd152b0b12a46611aa898a4"),
    from_source=number_row,
    check_row=check_whole,
    local_files=("test.jsonl",),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _MILES, "27", "28"),
        Example(_MILES, Answer("27.0", ("stop_token", "stop_token")), 1.0),
    ),
)
