"""APPS: the 5,000 training problems, to train on (Hendrycks et al. 2021, arXiv 2105.09938).

Rows: see rwkv_data.prepare.row_shapes.code_contest; graded like the test problems (rwkv_data.benchmarks.apps). The
catch: problems without tests are left out and counted. `--set where=difficulty=interview` asks one of the three grades.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource
from rwkv_data.benchmarks.apps import BENCHMARK as APPS
from rwkv_data.prepare.row_shapes.code_contest import check_row, problem_row

_ECHO = {
    "question": "Read a line and print it in capitals.",
    "starter_code": "",
    "function": "",
    "input_output": '{"inputs": ["ab c\\n", "X\\n"], "outputs": ["AB C\\n", "X\\n"]}',
    "difficulty": "interview",
    "id": "7",
    "url": "",
    "answer": "print(input().upper())",
}

BENCHMARK = Benchmark(
    name="apps_train",
    version=1,
    domain="code",
    title="APPS, training problems",
    licence="MIT",
    split="train",
    rows=5000,
    source=HubSource("codeparrot/apps", "all", "train", files=("train.jsonl",)),
    from_source=problem_row,
    check_row=check_row,
    local_files=("train.jsonl", "train/*/"),
    kinds=APPS.kinds,
    examples=(
        *APPS.examples,
        Example(_ECHO, Answer("print(input().upper())\n", ("stop_token", "stop_token")), 1.0),
        Example(_ECHO, Answer("print(input())\n", ("stop_token", "stop_token")), 0.0),
    ),
    training=True,
)
