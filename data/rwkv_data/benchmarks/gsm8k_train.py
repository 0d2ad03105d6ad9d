r"""GSM8K: the 7,473 training problems, to train on (Cobbe et al. 2021, arXiv 2110.14168).

Rows, catch and kinds: see rwkv_data.benchmarks.gsm8k, whose few-shot examples are drawn from these rows. The harness's
kinds are left out here: its tasks are of the test split.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example
from rwkv_data.benchmarks.gsm8k import BENCHMARK as GSM8K
from rwkv_data.benchmarks.gsm8k import check_row, from_source
from rwkv_data.profiles.training_set import of_kinds, training_kinds

_CLIPS = {
    "question": "Ann sold clips to 6 friends, and then to half as many more. To how many did she sell?",
    "answer": "9",
    "solution": "Half of 6 is 6/2 = <<6/2=3>>3. In all 6+3 = <<6+3=9>>9.",
}
_KINDS = training_kinds(GSM8K.kinds)

BENCHMARK = Benchmark(
    name="gsm8k_train",
    version=1,
    domain="free_response",
    title="GSM8K, training problems",
    licence="MIT",
    split="train",
    rows=7473,
    source=GSM8K.pool,
    from_source=from_source,
    check_row=check_row,
    local_files=("train.jsonl",),
    kinds=_KINDS,
    examples=(
        *of_kinds(GSM8K.examples, _KINDS),
        Example(_CLIPS, Answer("9", ("stop_token", "stop_token")), 1.0),
        Example(_CLIPS, Answer("3", ("stop_token", "stop_token")), 0.0),
    ),
    training=True,
)
