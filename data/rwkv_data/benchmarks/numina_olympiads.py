r"""NuminaMath-CoT, source `olympiads`: olympiad problems with worked solutions, to train on.

Rows: see rwkv_data.prepare.row_shapes.question_numina. Many are proofs; those have no box and are left out. A box may
hold a list or a condition, which a rule compares as far as it is a formula.
"""

from rwkv_data.benchmark import Answer, Example
from rwkv_data.prepare.row_shapes.question_numina import benchmark

_PAIRS = {
    "question": "Find all integers $x$ with $x^2 = 4$.",
    "answer": "-2, 2",
    "solution": "From $(x-2)(x+2)=0$ we have $x=\\boxed{-2, 2}$.",
    "source": "olympiads",
}

BENCHMARK = benchmark(
    "numina_olympiads",
    "olympiads",
    "NuminaMath-CoT, olympiad problems",
    _PAIRS,
    "2",
    (Example(_PAIRS, Answer("2, -2", ("stop_token", "stop_token")), 1.0),),
)
