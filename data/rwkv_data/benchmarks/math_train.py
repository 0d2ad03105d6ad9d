r"""MATH: the 7,500 training problems of seven subjects, to train on (Hendrycks et al. 2021, arXiv 2103.03874).

Rows, catch and kinds: see rwkv_data.benchmarks.hendrycks_math, whose few-shot examples these rows are. MATH-500 was
taken from the test problems; the other 4,500 of those are often trained on, too, and are not here.
"""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example
from rwkv_data.benchmarks.hendrycks_math import BENCHMARK as MATH
from rwkv_data.prepare.row_shapes.question_math import TRAIN, TRAIN_FILES, math_example
from rwkv_data.profiles.training_set import of_kinds, training_kinds

_DEGREE = {
    "question": "What is the degree of $(x^2+1)^3$?",
    "answer": "6",
    "solution": "The leading term is $x^6$, so it is $\\boxed{6}$.",
    "subject": "Algebra",
    "level": "Level 2",
}
_KINDS = training_kinds(MATH.kinds)

BENCHMARK = Benchmark(
    name="math_train",
    version=1,
    domain="free_response",
    title="MATH, training problems",
    licence="MIT",
    split="train",
    rows=7500,
    source=TRAIN,
    from_source=math_example,
    check_row=rows.check_question,
    local_files=TRAIN_FILES,
    kinds=_KINDS,
    examples=(
        *of_kinds(MATH.examples, _KINDS),
        Example(_DEGREE, Answer("6", ("stop_token", "stop_token")), 1.0),
        Example(_DEGREE, Answer("5", ("stop_token", "stop_token")), 0.0),
    ),
    training=True,
)
