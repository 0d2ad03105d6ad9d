r"""HumanEval: 164 Python functions to complete from signature and docstring (Chen et al. 2021, arXiv 2107.03374).

Rows: see rwkv_data.prepare.row_shapes.code_human_eval. What a model writes is appended to the prompt as it is and
tested in the sandbox, 3 s of processor time a program.

The catch: rwkv-skills asks with all blank lines taken out and stops at the token "\n\n", so whatever the model writes
is cut at its first blank line. The usual kind keeps the prompt and has the stops of the paper instead; the kind
`code_human_eval.rwkv-skills-v1` has those of rwkv-skills. `code_human_eval.lm-eval` is the harness's humaneval.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, WebSource, by_name
from rwkv_data.graders.code import graders
from rwkv_data.prepare.row_shapes.code_human_eval import check_row, from_source
from rwkv_data.profiles import code

_ADD = {
    "prompt": 'def add(x, y):\n    """Add two numbers.\n    >>> add(2, 3)\n    5\n    """\n',
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n    assert candidate(-1, 1) == 0\n",
    "answer": "    return x + y\n",
    "id": "Example/0",
}
_RIGHT, _WRONG = "    return x + y\n", "    return x - y\n"
_WHOLE = "\ndef add(x, y):\n    return {}\n"
_ROOT = "https://raw.githubusercontent.com/openai/human-eval/6d43fb980f9fee3c892a914eda09951f772ad10d/data"

BENCHMARK = Benchmark(
    name="human_eval",
    version=1,
    domain="code",
    title="HumanEval, Python functions",
    licence="MIT",
    split="test",
    rows=164,
    source=WebSource(
        (f"{_ROOT}/HumanEval.jsonl.gz",),
        ("b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",),
    ),
    from_source=from_source,
    check_row=check_row,
    local_files=("HumanEval.jsonl.gz", "HumanEval.jsonl", "test.jsonl"),
    kinds=by_name(
        [
            *code.human_eval(lambda rule: graders.human_eval(extract=rule)),
            code.human_eval_lm_eval(graders.human_eval()),
        ]
    ),
    examples=(
        Example(_ADD, Answer("\n" + _RIGHT, ("stop_suffix",)), 1.0),
        Example(_ADD, Answer("\n" + _WRONG, ("stop_suffix",)), 0.0),
        Example(_ADD, Answer("", ("stop_token",)), 0.0),
        Example(_ADD, Answer("\n" + _RIGHT, ("stop_token",)), 1.0, "code_human_eval.rwkv-skills-v1"),
        Example(_ADD, Answer("\n    total = x + y", ("stop_token",)), 0.0, "code_human_eval.rwkv-skills-v1"),
        Example(_ADD, Answer(_WHOLE.format("x + y"), ("stop_suffix",)), 1.0, "code_human_eval.rwkv-skills-v2"),
        Example(_ADD, Answer(_WHOLE.format("x * y"), ("stop_suffix",)), 0.0, "code_human_eval.rwkv-skills-v2"),
        Example(_ADD, Answer(_RIGHT, ("stop_suffix",)), 1.0, "code_human_eval.lm-eval"),
        Example(_ADD, Answer("    return x +\n", ("stop_suffix",)), 0.0, "code_human_eval.lm-eval"),
    ),
)
