r"""BIG-Bench Hard: three worked examples of the task, then the question (Suzgun et al. 2022, arXiv 2210.09261).

    description\n\nQ: ..\nA: Let's think step by step.\n... So the answer is X.\n\n  (three times)
    Q: ..\nA: Let's think step by step.\n

The examples are the authors' (cot-prompts/TASK.txt); the first one of a task carries the description of the task.

`bbh` is ours: the answer ends where the next question would begin, and the extraction is a whole chain.
`lm-eval` is bbh_cot_fewshot of lm-evaluation-harness with all it does to a score: any capital Q and any blank line
ends the answer, and the extraction drops the last character.
"""

from dataclasses import replace

from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders import lm_eval_bbh
from rwkv_data.profiles import BBH, LM_EVAL
from rwkvctl.protocol.engine import Sampling, Stops

MAX_TOKENS = 1024
NEXT_QUESTION = Stops(suffixes=("\nQ:", "\nUser:"))
HARNESS_STOPS = Stops(suffixes=("</s>", "Q", "\n\n"))


def prompt(row: Row) -> str:
    """Return the question, and the beginning of a chain of thought."""
    return f"Q: {row['question']}\nA: Let's think step by step.\n"


def example(row: Row) -> str:
    """Return a worked example; the description of the task precedes its first one."""
    described = f"{row['description']}\n\n" if row.get("description") else ""
    return f"{described}{prompt(row)}{row['solution']}"


def kinds(grader: Grader) -> list[Kind]:
    """Return our kind, graded by `grader`, and the harness's."""
    profile, version = BBH
    ours = Kind(
        name="free_response",
        profile=profile,
        profile_version=version,
        stages=(_stage(NEXT_QUESTION),),
        grader=grader,
        group_by="task",
        shots=FewShot(count=3, example=example, by="task"),
    )
    profile, version = LM_EVAL
    harness = replace(
        ours,
        name="free_response.lm-eval",
        profile=profile,
        profile_version=version,
        stages=(_stage(HARNESS_STOPS),),
        grader=lm_eval_bbh.BBH,
        default=False,
    )
    return [ours, harness]


def _stage(stops: Stops) -> Stage:
    return Stage(name="cot", mode="generate", prompt=prompt, sampling=Sampling(max_tokens=MAX_TOKENS), stops=stops)
