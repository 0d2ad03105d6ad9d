r"""qwen-math: base models as the evaluation of Qwen2.5-Math asks them (prompt type "cot", evaluation/utils.py there).

Four worked examples and the question as `Question: Q\nAnswer:`, with two blank lines between them; greedy, at most
2,048 tokens. Upstream has examples for word problems, for MATH, AIME and AMC, and for the MIT OCW problems; for the
other sets it only runs without any, and here those show the ones of MATH. A question whose answer is yes, no, true or
false says so at its end.
"""

from typing import Final

from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders.maths import qwen_math as grader
from rwkv_data.profiles import QWEN_MATH
from rwkv_data.profiles.maths_examples import Examples
from rwkvctl.protocol.engine import Sampling, Stops

NAME: Final = "free_response.qwen-math"
SHOTS: Final = 4
_STOPS = Stops(suffixes=("</s>", "<|im_end|>", "<|endoftext|>", "\n\nQuestion:"))
_HINTS = {("true", "false"): " (True or False)", ("yes", "no"): " (Yes or No)"}


def prompt(row: Row) -> str:
    """Return the prompt; as upstream, without the blank after "Answer:"."""
    return f"Question: {(row['question'] + _hint(row)).strip()}\nAnswer:"


def _hint(row: Row) -> str:
    answer = str(row.get("answer", "")).strip().lower()
    return next((hint for answers, hint in _HINTS.items() if answer in answers), "")


def qwen_math(examples: Examples = (), *, group_by: str = "") -> Kind:
    """Return the kind with the first four of the examples, or none."""
    profile, version = QWEN_MATH
    texts = tuple(f"Question: {question}\nAnswer: {answer}" for question, answer in examples)
    stage = Stage(name="answer", mode="generate", prompt=prompt, sampling=Sampling(max_tokens=2048), stops=_STOPS)
    return Kind(
        name=NAME,
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=grader.GRADER,
        group_by=group_by,
        shots=FewShot(count=SHOTS, example=prompt, between="\n\n\n", fixed=texts) if texts else None,
        default=False,
    )
