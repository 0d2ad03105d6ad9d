"""HumanEval+: HumanEval with many more inputs a function (EvalPlus; Liu et al. 2023, arXiv 2305.01210).

Rows: see rwkv_data.prepare.row_shapes.code_plus. An answer is right if it gives the reference solution's outputs on the
base inputs and on the further ones; the part `base` counts the base inputs alone, which come near HumanEval's own
tests.

The catch: the reference solutions differ from HumanEval's, and so do some prompts; the set on the hub lacks the inputs.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, WebSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_plus import check_row, from_source, plus
from rwkv_data.profiles import code

_ABS = {
    "prompt": 'def size(x):\n    """How far the number is from zero."""\n',
    "entry_point": "size",
    "canonical_solution": "    return abs(x)\n",
    "answer": "    return abs(x)\n",
    "atol": 0,
    "task_id": "Example/0",
    "base_input": "[[2],[0]]",
    "plus_input": "[[-3],[-Infinity],[18446744073709551616]]",
}
_WHOLE = "\ndef size(x):\n    return {}\n"
_ROOT = "https://raw.githubusercontent.com/evalplus/humanevalplus_release/200defce9e3429d28ca215b6dd061c0f7f31c18b"

BENCHMARK = Benchmark(
    name="human_eval_plus",
    version=1,
    domain="code",
    title="HumanEval+, Python functions, many inputs",
    licence="Apache-2.0",
    split="test",
    rows=164,
    source=WebSource(
        (f"{_ROOT}/HumanEvalPlus.jsonl.gz",),
        ("272720b90ac375502c8ed23cd791c2a93dfb22a911641a494da74a426c09f101",),
    ),
    from_source=from_source,
    check_row=check_row,
    local_files=("HumanEvalPlus.jsonl.gz", "HumanEvalPlus.jsonl", "test.jsonl"),
    kinds=by_name(
        code.human_eval(lambda rule: plus(graders.human_eval_plus(extract=rule)), metrics=("pass@1", "base"))
    ),
    examples=(
        Example(_ABS, Answer("\n    return max(x, -x)\n", ("stop_suffix",)), 1.0),
        Example(_ABS, Answer("\n    return x\n", ("stop_suffix",)), 0.0),
        Example(_ABS, Answer(" ", ("stop_token",)), 0.0),
        Example(_ABS, Answer("\n    return abs(x)", ("stop_token",)), 1.0, "code_human_eval.rwkv-skills-v1"),
        Example(_ABS, Answer("\n    y = abs(x)", ("stop_token",)), 0.0, "code_human_eval.rwkv-skills-v1"),
        Example(_ABS, Answer(_WHOLE.format("abs(x)"), ("stop_suffix",)), 1.0, "code_human_eval.rwkv-skills-v2"),
        Example(_ABS, Answer(_WHOLE.format("-x"), ("stop_suffix",)), 0.0, "code_human_eval.rwkv-skills-v2"),
    ),
)
