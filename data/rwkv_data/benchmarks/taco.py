"""TACO: contest problems of known topics and difficulty, 1,000 to test with (Li et al. 2023, arXiv 2312.14852).

Rows: see rwkv_data.prepare.row_shapes.code_contest; graded like APPS.

The catch: the file that the set's repository shows (taco_generation_example.json) has prompts and outputs but no tests;
the tests are in the hub's set alone. The difficulty (EASY to VERY_HARD) groups the score. rwkv-skills does not have
this set.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_contest import check_row, problem_row
from rwkv_data.profiles import code

_COUNT = {
    "question": "Read a word and print how many letters it has.",
    "starter_code": "",
    "function": "",
    "input_output": '{"inputs": ["apple\\n", "fig\\n"], "outputs": ["5\\n", "3\\n"]}',
    "difficulty": "EASY",
    "id": "",
    "url": "",
    "answer": "print(len(input()))",
}


def _said(code: str) -> Answer:
    return Answer(code, ("stop_token", "stop_token"))


BENCHMARK = Benchmark(
    name="taco",
    version=1,
    domain="code",
    title="TACO, contest problems",
    licence="Apache-2.0, parts CC BY 4.0 and MIT",
    split="test",
    rows=1000,
    source=HubSource("BAAI/TACO", "ALL", "test", files=("ALL/test-*.parquet",)),
    from_source=problem_row,
    check_row=check_row,
    local_files=("test.jsonl", "ALL/test-*.parquet", "test-*.parquet"),
    kinds=by_name(code.contest(lambda rule: graders.apps(extract=rule))),
    examples=(
        Example(_COUNT, _said("print(len(input().strip()))\n"), 1.0),
        Example(_COUNT, _said("print(5)\n"), 0.0),
    ),
)
