"""HumanEvalFix: 164 functions with an error, to be repaired (HumanEvalPack; Muennighoff et al. 2023, arXiv 2308.07124).

Rows: see rwkv_data.prepare.row_shapes.code_human_eval. The prompt shows signature, docstring and the faulty body; the
model writes the whole function into a fence. It is appended to signature and docstring, which alone are a function that
does nothing, and tested like HumanEval.

The catch: of the pack's three tasks and six languages this is one of each (`python`, fix with the docstring shown), in
rwkv-skills' words; published scores of HumanEvalFix show the tests instead of the docstring, so they are no match.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_human_eval import check_fix, fix_from_source
from rwkv_data.profiles import code

_LARGER = {
    "prompt": 'def larger(x, y):\n    """The larger of two numbers."""\n',
    "buggy_solution": "    return min(x, y)\n",
    "entry_point": "larger",
    "test": "def check(larger):\n    assert larger(2, 3) == 3\n    assert larger(3, 2) == 3\n",
    "answer": "    return max(x, y)\n",
    "id": "Python/0",
}
_RIGHT = "\ndef larger(x, y):\n    return max(x, y)\n"
_WRONG = "\ndef larger(x, y):\n    return min(x, y)\n"

BENCHMARK = Benchmark(
    name="human_eval_fix",
    version=1,
    domain="code",
    title="HumanEvalFix, Python functions to repair",
    licence="MIT",
    split="test",
    rows=164,
    source=HubSource("bigcode/humanevalpack", "python", "test"),
    from_source=fix_from_source,
    check_row=check_fix,
    local_files=("humanevalpack.jsonl", "python/test-*.parquet", "test.jsonl"),
    kinds=by_name(code.human_eval_fix(lambda rule: graders.human_eval(extract=rule))),
    examples=(
        Example(_LARGER, Answer(_RIGHT, ("stop_suffix",)), 1.0),
        Example(_LARGER, Answer("\n    return x if x > y else y\n", ("stop_suffix",)), 1.0),
        Example(_LARGER, Answer(_RIGHT + "```\nNow it takes the larger one.", ("length",)), 1.0),
        Example(_LARGER, Answer(_WRONG, ("stop_suffix",)), 0.0),
        Example(_LARGER, Answer(_RIGHT, ("stop_token",)), 1.0, "code_human_eval.rwkv-skills-v1"),
        Example(_LARGER, Answer("\nimport math", ("stop_token",)), 0.0, "code_human_eval.rwkv-skills-v1"),
    ),
    schema_verified=False,
)
