r"""MATH-500: 500 competition problems with LaTeX answers (Hendrycks et al. 2021; the subset of Lightman et al. 2023).

    {"problem": "Convert the point $(0,3)$ ...", "solution": "We have that ...",
     "answer": "\\left( 3, \\frac{\\pi}{2} \\right)", "subject": "Precalculus", "level": 2,
     "unique_id": "test/precalculus/807.json"}

The catch: 311 answers are whole numbers, the rest fractions, tuples, intervals, matrices, words. String equality and
"the last number" both misjudge them, so equality is math-verify's. The profile stops at the token `}\`, which cuts one
of the 500 gold answers (`\left(\frac{3}{5},\frac{8}{3}\right]`), and not at `}}\`, with which 113 of them end: those
run on to the limit, and the answer ends where its box does.

Of the harness, `lm-eval` is minerva_math500 and `lm-eval-hendrycks` is hendrycks_math500. The latter grades all between
the first and the last dollar as one string, so that a chain of thought scores nothing.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row
from rwkv_data.graders.maths.grader import GRADER, TEXT
from rwkv_data.prepare.row_shapes.question_math import TRAIN, TRAIN_FILES, math_example
from rwkv_data.profiles import lm_eval_maths
from rwkv_data.profiles.free_response import WORKED, free_response
from rwkv_data.profiles.maths_albatross import albatross
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set


def from_source(raw: Row) -> dict[str, Any]:
    """The problem as the question; subject and level stay for the breakdown."""
    return {
        "question": rows.text(raw, "problem"),
        "answer": rows.text(raw, "answer"),
        "solution": rows.text(raw, "solution"),
        "subject": rows.text(raw, "subject"),
        "level": rows.whole(raw, "level"),
        "id": rows.text(raw, "unique_id"),
    }


_POLAR = {"question": "Convert $(0,3)$ to polar coordinates.", "answer": "\\left( 3, \\frac{\\pi}{2} \\right)"}
_SHARE = {"question": "What share is it?", "answer": "\\frac{14}{3}"}
_SUM = {"question": "What is $1 + 1$?", "answer": "2", "solution": "It is $\\boxed{2}$."}
_FORMS = {lm_eval_maths.NAME: lambda answer: f" Final Answer: The final answer is ${answer}$. I hope it is correct."}
_KINDS = maths_set(
    free_response(GRADER, metrics=("avg@4", "pass@1"), repeats=4, group_by="subject", shots=WORKED),
    [
        lm_eval_maths.minerva(),
        lm_eval_maths.hendrycks(lm_eval_maths.NAME_HENDRYCKS, pool=False),
        albatross(TEXT, group_by="subject"),
    ],
    judged=True,
    qwen=MATH,
)

BENCHMARK = Benchmark(
    name="math_500",
    version=1,
    domain="free_response",
    title="MATH-500, competition problems",
    licence="MIT",
    split="test",
    rows=500,
    source=HubSource("HuggingFaceH4/MATH-500", "default", "test"),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("test.jsonl",),
    pool=TRAIN,
    pool_files=TRAIN_FILES,
    pool_from_source=math_example,
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _SUM, "2", "3", _FORMS),
        Example(_POLAR, Answer("(3, \\pi/2)", ("stop_token", "stop_token")), 1.0),
        Example(_POLAR, Answer("(3, \\frac{\\pi}{2})}\\), as asked", ("stop_token", "length")), 1.0),
        Example(_POLAR, Answer("(3, \\pi)", ("stop_token", "stop_token")), 0.0),
        Example(_SHARE, Answer("\\frac{28}{6", ("stop_token", "stop_token")), 1.0),
        Example(_SHARE, Answer("3", ("stop_token", "stop_token")), 0.0),
        Example(_SHARE, Answer("", ("length", "stop_token")), 0.0),
    ),
)
