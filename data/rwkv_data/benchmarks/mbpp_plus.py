"""MBPP+: 378 tasks of MBPP, put right, with many more inputs (EvalPlus; Liu et al. 2023, arXiv 2305.01210).

Rows: see rwkv_data.prepare.row_shapes.code_plus; prompts: a docstring with the task and an assertion. An answer is
right if it gives the reference solution's outputs on the base inputs and on the further ones; the part `base` counts
the base inputs alone.

The catch: what is a tuple, a set or a complex number among the inputs is told by the task's number alone, and several
tasks are compared by rules of their own; see `mbpp_inputs` and `compare_outputs` of rwkv_data.graders.code.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, WebSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_plus import check_row, from_source, plus
from rwkv_data.profiles import code

_TOTAL = {
    "prompt": '"""\nWrite a function to add up a list.\nassert total([1, 2]) == 3\n"""\n',
    "entry_point": "total",
    "canonical_solution": "\ndef total(items):\n    return sum(items)\n",
    "answer": "\ndef total(items):\n    return sum(items)\n",
    "atol": 0,
    "task_id": "Mbpp/1",
    "base_input": "[[[1,2]],[[5]]]",
    "plus_input": "[[[]],[[1.5,2.5]],[[Infinity]]]",
}
_RIGHT = "\ndef total(items):\n    return sum(items)\n"
_BASE_ONLY = "\ndef total(items):\n    return items[0] + sum(items[1:])\n"
_ROOT = "https://raw.githubusercontent.com/evalplus/mbppplus_release/dadf43da556a00f7bacd71cb154f2932757d9144"

BENCHMARK = Benchmark(
    name="mbpp_plus",
    version=1,
    domain="code",
    title="MBPP+, small Python tasks, many inputs",
    licence="Apache-2.0",
    split="test",
    rows=378,
    source=WebSource(
        (f"{_ROOT}/MbppPlus.jsonl.gz",),
        ("af43697e8791c4c149bdfd6b489d8b5412507551ac20e28a439f650b8225db63",),
    ),
    from_source=from_source,
    check_row=check_row,
    local_files=("MbppPlus.jsonl.gz", "MbppPlus.jsonl", "test.jsonl"),
    kinds=by_name(code.mbpp(lambda rule: plus(graders.mbpp_plus(extract=rule)), metrics=("pass@1", "base"))),
    examples=(
        Example(_TOTAL, Answer(_RIGHT, ("stop_suffix",)), 1.0),
        Example(_TOTAL, Answer(_BASE_ONLY, ("stop_suffix",)), 0.0),
        Example(_TOTAL, Answer("", ("stop_token",)), 0.0),
        Example(_TOTAL, Answer(_RIGHT, ("stop_token",)), 1.0, "code_mbpp.rwkv-skills-v1"),
        Example(_TOTAL, Answer("\nimport math", ("stop_token",)), 0.0, "code_mbpp.rwkv-skills-v1"),
    ),
)
