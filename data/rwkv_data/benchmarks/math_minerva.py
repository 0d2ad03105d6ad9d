r"""MATH with Minerva's prompt: the 5,000 test problems as lm-evaluation-harness' minerva_math asks them.

    {"problem": "...", "level": "Level 3", "type": "Algebra", "solution": "... $\\boxed{2}$ ..."}

The catch: "Minerva Math" also names 272 problems of MIT courses, which are another set (minerva_ocw). Four examples
stand before each question (Lewkowycz et al. 2022). The headline exact_match wants the examples' closing sentence
("Final Answer: The final answer is $2$. I hope it is correct."): a boxed answer alone is wrong there. The measure
math_verify reads any form, and is the fairer one. The harness's limit of 256 tokens cuts many solutions.
"""

from dataclasses import replace

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, by_name
from rwkv_data.prepare.row_shapes.question_math import TEST, math_row
from rwkv_data.profiles import lm_eval_maths

_LINES = {"question": "How many lines are there?", "answer": "2", "solution": "There are $\\boxed{2}$."}

BENCHMARK = Benchmark(
    name="math_minerva",
    version=1,
    domain="free_response",
    title="MATH with Minerva's prompt, 5,000 competition problems",
    licence="MIT",
    split="test",
    rows=5000,
    source=TEST,
    from_source=math_row,
    check_row=rows.check_question,
    local_files=("test.jsonl",),
    kinds=by_name([replace(lm_eval_maths.minerva(), default=True, group_by="subject")]),
    examples=(
        Example(_LINES, Answer(" Final Answer: The final answer is $2$. I hope it is correct.", ("stop_suffix",)), 1.0),
        Example(_LINES, Answer(" Final Answer: The final answer is $3$. I hope it is correct.", ("stop_suffix",)), 0.0),
        Example(_LINES, Answer(" There are $\\boxed{2}$ lines.", ("stop_suffix",)), 0.0),
    ),
)
