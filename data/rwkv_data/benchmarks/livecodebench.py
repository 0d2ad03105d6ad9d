"""LiveCodeBench, code generation: 1,055 contest problems, May 2023 to April 2025 (Jain et al. 2024, arXiv 2403.07974).

Rows: see rwkv_data.prepare.row_shapes.code_contest; this is release_v6. A function is called with arguments that are
JSON, a program gets each test on its standard input; every test must pass, each within 6 s of processor time.

The catch: a window of dates decides more than the release does, because a model may have seen what is older than it. A
row keeps its contest's day as `date`, and `difficulty` groups the score. `--set release=v5` asks the rows of an earlier
release; `--set start_date=2024-08-01 --set end_date=2025-01-31` those of contests between these days. The private tests
are a pickle, which is read by a reader of nothing but text. rwkv-skills limits all tests of a problem to one time limit
together, so that many short tests fail there; here the limit is each test's.
"""

from dataclasses import replace

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.definition.row_window import Release, Window
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_contest import check_packed, livecodebench_row, packed, unpacking
from rwkv_data.profiles import code

_RELEASES = {
    "v1": Release(400, "2024-03-31"),
    "v2": Release(511, "2024-05-31"),
    "v3": Release(612, "2024-07-31"),
    "v4": Release(713, "2024-09-30"),
    "v5": Release(880, "2025-01-31"),
    "v6": Release(1055, "2025-04-30"),
}
"""As the card of livecodebench/code_generation_lite counts them; the file of a release is that of the one before, and a
further one."""

_SUM = {
    "question": "Read two integers and print their sum.",
    "starter_code": "",
    "function": "",
    "tests": packed({"inputs": ["1 2\n", "-5 5\n"], "outputs": ["3\n", "0\n"], "fn_name": ""}),
    "difficulty": "easy",
    "date": "2024-01-06",
    "platform": "atcoder",
    "id": "example_a",
    "answer": "",
}
_TWICE = {
    "question": "Return twice the number.",
    "starter_code": "class Solution:\n    def twice(self, number: int) -> int:\n        ",
    "function": "twice",
    "tests": packed({"inputs": ["2", "-1"], "outputs": ["4", "-2"], "fn_name": "twice"}),
    "difficulty": "medium",
    "date": "2024-01-07",
    "platform": "leetcode",
    "id": "example_b",
    "answer": "",
}
_SUMS = "a, b = map(int, input().split())\nprint(a + b)\n"
_TWICES = "class Solution:\n    def twice(self, number: int) -> int:\n        return number * 2\n"
_FENCED = "Like this:\n```python\n{}```\n"


def _said(code: str) -> Answer:
    return Answer(code, ("stop_token", "stop_token"))


BENCHMARK = Benchmark(
    name="livecodebench",
    version=1,
    domain="code",
    title="LiveCodeBench release 6, contest problems",
    licence="CC (as its page says)",
    split="test",
    rows=1055,
    source=HubSource("lighteval/code_generation_lite", "release_v6", "test"),
    from_source=livecodebench_row,
    check_row=check_packed,
    local_files=("test*.jsonl", "release_v6/test-*.parquet", "test-*.parquet"),
    kinds=by_name(
        [
            replace(kind, window=Window(_RELEASES))
            for kind in code.livecodebench(lambda rule: unpacking(graders.livecodebench(extract=rule)))
        ]
    ),
    examples=(
        Example(_SUM, _said(_SUMS), 1.0),
        Example(_SUM, _said("a, b = map(int, input().split())\nprint(a - b)\n"), 0.0),
        Example(_TWICE, _said(_TWICES), 1.0),
        Example(_TWICE, _said(_TWICES.replace("* 2", "** 2")), 0.0),
        Example(_TWICE, _said(_TWICES), 1.0, "code_livecodebench.rwkv-skills-v2"),
        Example(_TWICE, _said(""), 0.0, "code_livecodebench.rwkv-skills-v2"),
        Example(_SUM, Answer(_FENCED.format(_SUMS), ("stop_token",)), 1.0, "code_livecodebench.livecodebench"),
        Example(_SUM, Answer(_SUMS, ("stop_token",)), 0.0, "code_livecodebench.livecodebench"),
    ),
)
