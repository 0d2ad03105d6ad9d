r"""Multiple choice answered in free text, from which the letter is read: for models that end their own thoughts.

    User: Answer the following multiple choice question. ... Think step by step before answering.\n\n
    Q\n\nA) ..\nB) ..\n\nAssistant:

The question's wording is openai/simple-evals' (common.py), with the letters that the row has; User and Assistant are
RWKV's. Greedy, and as many tokens as there.
"""

from rwkv_data.definition import rows
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders import letters
from rwkv_data.profiles import SIMPLE_EVALS
from rwkv_data.profiles.chat_turn import as_prompt
from rwkvctl.protocol.engine import Sampling, Stops

MAX_TOKENS = 2048


def question(row: Row) -> str:
    """Return the task, the question and its choices."""
    names = rows.letters(row)
    lines = "\n".join(f"{letter}) {text}" for letter, text in zip(names, row["choices"], strict=True))
    return (
        "Answer the following multiple choice question. The last line of your response should be of the following"
        f" format: 'Answer: $LETTER' (without quotes) where LETTER is one of {names}. Think step by step before"
        f" answering.\n\n{row['question']}\n\n{lines}"
    )


def multi_choice_text(*, group_by: str = "") -> Kind:
    """Return the kind with one stage, which holds the chain of thought and the answer."""
    profile, version = SIMPLE_EVALS
    stage = Stage(
        name="answer",
        mode="generate",
        prompt=as_prompt(question),
        sampling=Sampling(max_tokens=MAX_TOKENS),
        stops=Stops(suffixes=("\nUser:",)),
        user=question,
    )
    return Kind(
        name="multi_choice_cot.simple-evals",
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=letters.GRADER,
        group_by=group_by,
        default=False,
    )
