r"""MBPP: 500 small Python tasks with three assertions each (Austin et al. 2021, arXiv 2108.07732).

Rows: see rwkv_data.prepare.row_shapes.code_mbpp; the file's 974 rows hold all splits, of which tasks 11 to 510 are
tested and tasks 2, 3 and 4 are the examples. What rwkv-skills calls mbpp is the sanitised part of it: see
mbpp_sanitized.

The catch: rwkv-skills shows the model no test, only the first line of the reference solution, and stops at the token
"\n\n"; the usual kind keeps the prompt without that stop. The harness shows three tests and worked examples, allows 256
tokens, and does not run `test_setup_code`, so that task 367 cannot be solved there: `code_mbpp.lm-eval` does the same.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.graders.code import graders
from rwkv_data.graders.code.extract import continuation
from rwkv_data.prepare.row_shapes.code_mbpp import check_row, example_from_source, from_source
from rwkv_data.prepare.row_shapes.code_views import seeing
from rwkv_data.profiles import code


def without_setup(row: Row) -> Row:
    """What the harness tests of a row."""
    return {**row, "test_setup_code": ""}


_SQUARE = {
    "prompt": "Write a function to find the square of a number.",
    "test_list": ["assert square(2) == 4", "assert square(-3) == 9", "assert square(0) == 0"],
    "test_setup_code": "",
    "test_imports": [],
    "code": "def square(n):\n    return n * n",
    "answer": "def square(n):\n    return n * n",
    "id": 11,
}
_RIGHT, _WRONG = "\ndef square(n):\n    return n ** 2\n", "\ndef square(n):\n    return n + n\n"

BENCHMARK = Benchmark(
    name="mbpp",
    version=1,
    domain="code",
    title="MBPP, small Python tasks",
    licence="CC BY 4.0",
    split="test",
    rows=500,
    source=HubSource("google-research-datasets/mbpp", "full", "test"),
    from_source=from_source,
    check_row=check_row,
    local_files=("mbpp.jsonl", "test.jsonl"),
    pool=HubSource("google-research-datasets/mbpp", "full", "prompt"),
    pool_files=("mbpp.jsonl",),
    pool_from_source=example_from_source,
    kinds=by_name(
        [
            *code.mbpp(lambda rule: graders.mbpp(extract=rule), shots=True),
            code.mbpp_lm_eval(seeing(graders.mbpp(extract=continuation), without_setup, name="lm_eval-mbpp-v1")),
        ]
    ),
    examples=(
        Example(_SQUARE, Answer(_RIGHT, ("stop_suffix",)), 1.0),
        Example(_SQUARE, Answer(_RIGHT + "```\nThis squares it.", ("length",)), 1.0),
        Example(_SQUARE, Answer(_WRONG, ("stop_suffix",)), 0.0),
        Example(_SQUARE, Answer("\n", ("stop_token",)), 0.0),
        Example(_SQUARE, Answer(_RIGHT, ("stop_token",)), 1.0, "code_mbpp.rwkv-skills-v1"),
        Example(_SQUARE, Answer("\nimport math", ("stop_token",)), 0.0, "code_mbpp.rwkv-skills-v1"),
        Example(_SQUARE, Answer(_RIGHT, ("stop_suffix",)), 1.0, "code_mbpp.lm-eval"),
        Example(_SQUARE, Answer(f"```python{_RIGHT}```", ("stop_suffix",)), 0.0, "code_mbpp.lm-eval"),
    ),
)
