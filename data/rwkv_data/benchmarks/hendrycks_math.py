r"""MATH: the 5,000 test problems of seven subjects (Hendrycks et al. 2021, arXiv 2103.03874).

    {"problem": "How many vertical asymptotes ...", "level": "Level 3", "type": "Algebra",
     "solution": "... Therefore, the graph has $\\boxed{2}$ vertical asymptotes."}

The catch: the answer is the content of the solution's last box, which may be `\fbox` or `\boxed 2`. `lm-eval` is the
harness's hendrycks_math, which grades all between the first and the last dollar as one string: every chain of thought
scores nothing, all 5,000 published solutions included. The harness weights the subjects by their size, as here. It
draws examples (`--set shots=4`) per subject, each subject from a stream of its own; here they come from one stream.
"""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes.question_math import TEST, TRAIN, TRAIN_FILES, math_example, math_row
from rwkv_data.profiles import lm_eval_maths
from rwkv_data.profiles.free_response import WORKED, free_response
from rwkv_data.profiles.maths_examples_qwen import MATH
from rwkv_data.profiles.maths_set import examples, maths_set

_LINES = {"question": "How many lines are there?", "answer": "2", "solution": "There are $\\boxed{2}$."}
_HALF = {"question": "What is $1/2$ of $1/2$?", "answer": "\\frac14", "solution": "It is $\\boxed{\\frac14}$."}
_FORMS = {lm_eval_maths.NAME: lambda answer: f" ${answer}$"}
_KINDS = maths_set(free_response(GRADER, group_by="subject", shots=WORKED), [lm_eval_maths.hendrycks()], qwen=MATH)

BENCHMARK = Benchmark(
    name="hendrycks_math",
    version=1,
    domain="free_response",
    title="MATH, 5,000 competition problems",
    licence="MIT",
    split="test",
    rows=5000,
    source=TEST,
    from_source=math_row,
    check_row=rows.check_question,
    local_files=("test.jsonl",),
    pool=TRAIN,
    pool_files=TRAIN_FILES,
    pool_from_source=math_example,
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _LINES, "2", "3", _FORMS),
        Example(_HALF, Answer("0.25", ("stop_token", "stop_token")), 1.0),
        Example(_HALF, Answer("\\frac{1}{2}", ("stop_token", "stop_token")), 0.0),
    ),
)
