r"""NuminaMath-CoT, source `amc_aime`: problems of the AMC and the AIME with worked solutions, to train on.

Rows: see rwkv_data.prepare.row_shapes.question_numina. AIME24, AIME25 and AMC23 are of the same contests, so
`rwkvctl decontaminate` is due before anything that was sampled from them is trained on.
"""

from rwkv_data.benchmark import Answer, Example
from rwkv_data.prepare.row_shapes.question_numina import benchmark

_COUNT = {
    "question": "How many positive divisors does $12$ have?",
    "answer": "6",
    "solution": "As $12=2^2\\cdot 3$, it has $3\\cdot 2=\\boxed{6}$.",
    "source": "amc_aime",
}
_LETTER = {
    "question": "What is $2+3$? $\\textbf{(A)}\\ 4 \\qquad \\textbf{(B)}\\ 5$",
    "answer": "\\textbf{(B)}",
    "solution": "The sum is $5$: $\\boxed{\\textbf{(B)}}$.",
    "source": "amc_aime",
}

BENCHMARK = benchmark(
    "numina_amc_aime",
    "amc_aime",
    "NuminaMath-CoT, problems of AMC and AIME",
    _COUNT,
    "5",
    (
        Example(_COUNT, Answer("006", ("stop_token", "stop_token")), 1.0),
        Example(_LETTER, Answer("\\textbf{(B)}", ("stop_token", "stop_token")), 1.0),
        Example(_LETTER, Answer("\\textbf{(A)}", ("stop_token", "stop_token")), 0.0),
    ),
)
