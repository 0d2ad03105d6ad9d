r"""BRUMO 2025: the 30 problems of Brown University's contest, as MathArena published them (Balunovic et al. 2025).

    {"problem_idx": 1, "problem": "...", "answer": "\\frac{9}{2}", "problem_type": ["Algebra"]}

The catch: answers are LaTeX; the split is called train, though nothing is for training. MathArena's terms are
non-commercial.
"""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_rows import formula_row
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set
from rwkv_data.profiles.sampling import MATH_COT

_ROOM = {"question": "How many rooms are there?", "answer": "12"}
_HALVES = {"question": "What is the area?", "answer": "\\frac{9}{2}"}
_KINDS = maths_set(free_response(GRADER, metrics=("avg@8", "pass@8"), repeats=8, cot=MATH_COT))

BENCHMARK = Benchmark(
    name="brumo25",
    version=1,
    domain="free_response",
    title="BRUMO 2025",
    licence="CC BY-NC-SA 4.0 (MathArena): non-commercial",
    split="train",
    rows=30,
    source=HubSource("MathArena/brumo_2025", "default", "train"),
    from_source=formula_row,
    check_row=rows.check_question,
    local_files=("train.jsonl", "test.jsonl", "data/train-*.parquet", "*.parquet"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _ROOM, "12", "13"),
        Example(_HALVES, Answer("4.5", ("stop_token", "stop_token")), 1.0),
        Example(_HALVES, Answer("9", ("stop_token", "stop_token")), 0.0),
    ),
    schema_verified=False,
)
