"""HumanEval-X, its Python part: the 164 functions of HumanEval once more (Zheng et al. 2023, arXiv 2303.17568).

rwkv-skills calls this set human_eval_cn and takes it from the hub as it is, prompts in English. Rows: see
rwkv_data.prepare.row_shapes.code_human_eval.

The catch: the rows do not name the function; it is the one that the test hands to `check` at its end. Where a prompt
begins with a helper, that is not the first function in it.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_human_eval import check_row, from_source
from rwkv_data.profiles import code

_DOUBLE = {
    "prompt": 'def double(x):\n    """Twice the number."""\n',
    "entry_point": "double",
    "test": "def check(double):\n    assert double(2) == 4\n    assert double(-3) == -6\n",
    "answer": "    return 2 * x\n",
    "id": "Python/0",
}
_WHOLE = "\ndef double(x):\n    return {}\n"

BENCHMARK = Benchmark(
    name="human_eval_cn",
    version=1,
    domain="code",
    title="HumanEval-X, Python functions",
    licence="Apache-2.0 (as publicly known)",
    split="test",
    rows=164,
    source=HubSource("zai-org/humaneval-x", "python", "test", files=("data/python/data/humaneval.jsonl",)),
    from_source=from_source,
    check_row=check_row,
    local_files=("humaneval.jsonl", "humaneval_python.jsonl.gz", "test.jsonl"),
    kinds=by_name(code.human_eval(lambda rule: graders.human_eval(extract=rule))),
    examples=(
        Example(_DOUBLE, Answer("\n    return x + x\n", ("stop_suffix",)), 1.0),
        Example(_DOUBLE, Answer("\n    return x\n", ("stop_suffix",)), 0.0),
        Example(_DOUBLE, Answer("\n    return x * 2", ("stop_token",)), 1.0, "code_human_eval.rwkv-skills-v1"),
        Example(_DOUBLE, Answer("\n    y = x * 2", ("stop_token",)), 0.0, "code_human_eval.rwkv-skills-v1"),
        Example(_DOUBLE, Answer(_WHOLE.format("x + x"), ("stop_suffix",)), 1.0, "code_human_eval.rwkv-skills-v2"),
        Example(_DOUBLE, Answer(_WHOLE.format("x ** 2"), ("stop_suffix",)), 0.0, "code_human_eval.rwkv-skills-v2"),
    ),
    schema_verified=False,
)
