"""TACO: the 25,443 training problems, to train on (Li et al. 2023, arXiv 2312.14852).

Rows: see rwkv_data.prepare.row_shapes.code_contest; graded like the test problems (rwkv_data.benchmarks.taco). The
catch: they are gigabytes with all their tests; problems without tests are left out and counted, and parts of the set
come from APPS and CodeContests. `--set where=difficulty=MEDIUM` asks one grade.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.benchmarks.taco import BENCHMARK as TACO
from rwkv_data.prepare.row_shapes.code_contest import check_row, problem_row

_SUM = {
    "question": "Read two integers from one line and print their sum.",
    "starter_code": "",
    "function": "",
    "input_output": '{"inputs": ["3 4\\n", "-1 1\\n"], "outputs": ["7\\n", "0\\n"]}',
    "difficulty": "MEDIUM",
    "id": "",
    "url": "",
    "answer": "print(sum(map(int, input().split())))",
}

BENCHMARK = Benchmark(
    name="taco_train",
    version=1,
    domain="code",
    title="TACO, training problems",
    licence="Apache-2.0, parts CC BY 4.0 and MIT",
    split="train",
    rows=25443,
    source=HubSource("BAAI/TACO", "ALL", "train", files=("ALL/train-*.parquet",)),
    from_source=problem_row,
    check_row=check_row,
    local_files=("train.jsonl", "ALL/train-*.parquet", "train-*.parquet"),
    kinds=TACO.kinds,
    examples=(
        *TACO.examples,
        Example(_SUM, Answer("print(sum(map(int, input().split())))\n", ("stop_token", "stop_token")), 1.0),
        Example(_SUM, Answer("print(7)\n", ("stop_token", "stop_token")), 0.0),
    ),
    training=True,
)
