r"""NuminaMath-CoT, source `math`: problems of MATH, to train on.

Rows: see rwkv_data.prepare.row_shapes.question_numina. They come from MATH itself, so `rwkvctl decontaminate` is due
before anything that was sampled from them is trained on.
"""

from rwkv_data.benchmark import Answer, Example
from rwkv_data.prepare.row_shapes.question_numina import benchmark

_PART = {
    "question": "What is half of $\\frac{1}{2}$?",
    "answer": "\\frac{1}{4}",
    "solution": "Half of it is $\\boxed{\\frac{1}{4}}$.",
    "source": "math",
}

BENCHMARK = benchmark(
    "numina_math",
    "math",
    "NuminaMath-CoT, problems of MATH",
    _PART,
    "\\frac{1}{2}",
    (
        Example(_PART, Answer("0.25", ("stop_token", "stop_token")), 1.0),
        Example(_PART, Answer("\\frac14}$, so one quarter", ("stop_token", "length")), 1.0),
    ),
)
