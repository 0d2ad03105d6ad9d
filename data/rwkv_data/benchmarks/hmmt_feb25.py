r"""HMMT February 2025: 30 problems of the Harvard-MIT tournament, as MathArena published them (Balunovic et al. 2025).

    {"problem_idx": 1, "problem": "...", "answer": "103", "problem_type": ["Number Theory"]}

The catch: answers are LaTeX, some of them lists of numbers; the split is called train, though nothing is for training.
MathArena's terms are non-commercial.
"""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import formula_row
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set
from rwkv_data.profiles.sampling import MATH_COT

_DIVISORS = {"question": "Compute the sum of the divisors.", "answer": "103"}
_ROOT = {"question": "Compute the length.", "answer": "\\sqrt{23}-2 \\sqrt{3}"}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@8", "pass@8"), repeats=8, cot=MATH_COT))

BENCHMARK = Benchmark(
    name="hmmt_feb25",
    version=1,
    domain="free_response",
    title="HMMT February 2025",
    licence="CC BY-NC-SA 4.0 (MathArena): non-commercial",
    split="train",
    rows=30,
    source=HubSource("MathArena/hmmt_feb_2025", "default", "train"),
    from_source=formula_row,
    check_row=rows.check_question,
    local_files=("train.jsonl", "test.jsonl", "data/train-*.parquet", "*.parquet"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _DIVISORS, "103", "104"),
        Example(_ROOT, Answer("-2\\sqrt{3} + \\sqrt{23}", ("stop_token", "stop_token")), 1.0),
        Example(_ROOT, Answer("\\sqrt{23}", ("stop_token", "stop_token")), 0.0),
    ),
    schema_verified=False,
)
