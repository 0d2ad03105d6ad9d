"""MBPP, sanitised: the 427 tasks of MBPP whose wording people checked (Austin et al. 2021, arXiv 2108.07732).

Rows: see rwkv_data.prepare.row_shapes.code_mbpp. This is what rwkv-skills runs under the name mbpp (evalplus'
get_mbpp), over all of MBPP's splits: 7 of the tasks have numbers below 11, which elsewhere are examples.

The catch: asked in rwkv-skills' words without its stop at the first blank line, and with it: see mbpp.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, WebSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_mbpp import check_row, row_of
from rwkv_data.profiles import code

_ROOT = {
    "prompt": "Write a function to find the square root of a number.",
    "test_list": ["assert math.isclose(root(4), 2)", "assert math.isclose(root(2.25), 1.5)"],
    "test_setup_code": "",
    "test_imports": ["import math"],
    "code": "def root(n):\n    return n ** 0.5",
    "answer": "def root(n):\n    return n ** 0.5",
    "id": 600,
}
_RIGHT, _WRONG = "\nimport math\ndef root(n):\n    return math.sqrt(n)\n", "\ndef root(n):\n    return n / 2\n"

BENCHMARK = Benchmark(
    name="mbpp_sanitized",
    version=1,
    domain="code",
    title="MBPP sanitised, small Python tasks",
    licence="CC BY 4.0",
    split="test",
    rows=427,
    source=WebSource(
        ("https://raw.githubusercontent.com/google-research/google-research/master/mbpp/sanitized-mbpp.json",)
    ),
    from_source=row_of,
    check_row=check_row,
    local_files=("sanitized-mbpp.json",),
    kinds=by_name(code.mbpp(lambda rule: graders.mbpp(extract=rule))),
    examples=(
        Example(_ROOT, Answer(_RIGHT, ("stop_suffix",)), 1.0),
        Example(_ROOT, Answer(_WRONG, ("stop_suffix",)), 0.0),
        Example(_ROOT, Answer(_RIGHT, ("stop_token",)), 1.0, "code_mbpp.rwkv-skills-v1"),
        Example(_ROOT, Answer("\nimport math", ("stop_token",)), 0.0, "code_mbpp.rwkv-skills-v1"),
    ),
)
