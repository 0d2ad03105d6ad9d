"""chat: a problem as one turn of a conversation, for models that think and answer in one reply and end it themselves.

    User: Q\nPlease reason step by step, and put your final answer within \boxed{}.\n\nAssistant:

The sentence is the one that Qwen2.5-Math and DeepSeek-R1 recommend on their model cards, as are temperature and top-p.
A model behind a chat API is sent the user's turn alone; its own template puts the rest around it. Of a reply with
thoughts only what follows `</think>` is graded.
"""

from collections.abc import Callable
from typing import Final

from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.profiles import CHAT
from rwkvctl.protocol.engine import Sampling, Stops

REASONING: Final = Sampling(max_tokens=16_384, temperature=0.6, top_p=0.95)
NEXT_TURN: Final = Stops(suffixes=("\n\nUser:",))


def as_prompt(user: Callable[[Row], str]) -> Callable[[Row], str]:
    """Return the prompt of a model without a chat template: the user's turn, and the assistant's name."""
    return lambda row: f"User: {user(row)}\n\nAssistant:"


def boxed_question(row: Row) -> str:
    """Return the question, and how the answer is to be given."""
    return f"{row['question']}\nPlease reason step by step, and put your final answer within \\boxed{{}}."


def chat(job: str, user: Callable[[Row], str], grader: Grader, *, group_by: str = "") -> Kind:
    """Return the kind `JOB.chat`, whose whole reply is graded by the first answer of each row."""
    profile, version = CHAT
    stage = Stage(
        name="answer", mode="generate", prompt=as_prompt(user), sampling=REASONING, stops=NEXT_TURN, user=user
    )
    return Kind(
        name=f"{job}.{profile}",
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=grader,
        metrics=("pass@1",),
        group_by=group_by,
        default=False,
    )
