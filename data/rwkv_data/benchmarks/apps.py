"""APPS: contest and interview problems in Python, 5,000 to test with (Hendrycks et al. 2021, arXiv 2105.09938).

Rows: see rwkv_data.prepare.row_shapes.code_contest. All tests must pass, each within 4 s of processor time.

The catch: some problems have no tests, or tests that hold numbers of more digits than Python reads; they are left out
and counted when rows are prepared. Others want a function and do not show how it begins; the prompt then names it. The
difficulty (introductory, interview, competition) groups the score. rwkv-skills does not have this set.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_contest import check_row, problem_row
from rwkv_data.profiles import code

_LARGEST = {
    "question": "Read integers from one line and print the largest.",
    "starter_code": "",
    "function": "",
    "input_output": '{"inputs": ["3 1 2\\n", "-4\\n"], "outputs": ["3\\n", "-4\\n"]}',
    "difficulty": "introductory",
    "id": "0",
    "url": "",
    "answer": "print(max(map(int, input().split())))",
}
_EVEN = {
    "question": "Say whether a number is even.",
    "starter_code": "",
    "function": "is_even",
    "input_output": '{"fn_name": "is_even", "inputs": [[2], [3]], "outputs": [true, false]}',
    "difficulty": "interview",
    "id": "1",
    "url": "",
    "answer": "def is_even(n):\n    return n % 2 == 0",
}


def _said(code: str) -> Answer:
    return Answer(code, ("stop_token", "stop_token"))


BENCHMARK = Benchmark(
    name="apps",
    version=1,
    domain="code",
    title="APPS, contest problems",
    licence="MIT",
    split="test",
    rows=5000,
    source=HubSource("codeparrot/apps", "all", "test", files=("test.jsonl",)),
    from_source=problem_row,
    check_row=check_row,
    local_files=("test.jsonl", "test/*/", "train/*/"),
    kinds=by_name(code.contest(lambda rule: graders.apps(extract=rule))),
    examples=(
        Example(_LARGEST, _said("print(max(map(int, input().split())))\n"), 1.0),
        Example(_LARGEST, _said("print(input().split()[-1])\n"), 0.0),
        Example(_LARGEST, _said(""), 0.0),
        Example(_EVEN, _said("def is_even(n):\n    return not n % 2\n"), 1.0),
        Example(_EVEN, _said("def is_even(n):\n    return True\n"), 0.0),
    ),
)
