r"""Instructions to follow: `User: PROMPT\n\nAssistant:`, without thinking, as rwkv-skills asks IFEval.

rwkv-skills' own kind stops at the token "\n\n", so that an answer ends at its first blank line and no rule on several
paragraphs can be followed. That is a fault, so the kinds that run by default are `rwkv-skills-v1-whole`: prompt and
sampling of v1, and an answer ends where the next turn would begin. The token " <" is banned, so that no thought begins.
"""

from dataclasses import replace
from typing import Final

from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.profiles import LM_EVAL, RWKV_SKILLS, RWKV_SKILLS_THINKING, RWKV_SKILLS_WHOLE, chat_turn
from rwkv_data.profiles.sampling import UNPENALISED
from rwkvctl.protocol.engine import Sampling, Stops

FOLLOWING: Final = Sampling(
    max_tokens=4096,
    temperature=0.3,
    top_k=50,
    top_p=0.3,
    presence=0.5,
    frequency=0.5,
    decay=0.99,
    unpenalised=UNPENALISED,
    banned=(" <",),
)
THINKING: Final = Sampling(
    max_tokens=4096,
    temperature=0.3,
    top_k=50,
    top_p=0.3,
    presence=0.5,
    frequency=0.5,
    decay=0.99,
    unpenalised=UNPENALISED,
)
NEXT_TURN: Final = Stops(suffixes=("\n\nUser:", "\nUser:"))
V1_STOPS: Final = Stops(tokens=("\n\n", "User"))
NAME: Final = "instruction_following"


def prompt(row: Row) -> str:
    """Return the prompt as a turn of a conversation."""
    return f"User: {row['question']}\n\nAssistant:"


def thinking_prompt(row: Row) -> str:
    """Return the prompt as a turn, and the beginning of a thought."""
    return f"{prompt(row)} <think"


def whole(grader: Grader, metrics: tuple[str, ...], repeats: int = 1) -> Kind:
    """Return the usual kind: prompt and sampling of rwkv-skills v1, with answers that end at the next turn."""
    profile, version = RWKV_SKILLS_WHOLE
    return Kind(
        name=NAME,
        profile=profile,
        profile_version=version,
        stages=(Stage(name="answer", mode="generate", prompt=prompt, sampling=FOLLOWING, stops=NEXT_TURN),),
        grader=grader,
        repeats=repeats,
        metrics=metrics,
    )


def v1(kind: Kind) -> Kind:
    """Return the usual kind with the stops of rwkv-skills."""
    profile, version = RWKV_SKILLS
    stages = (replace(kind.stages[0], stops=V1_STOPS),)
    return replace(
        kind, name=f"{NAME}.{profile}", profile=profile, profile_version=version, stages=stages, default=False
    )


def thinking(kind: Kind, grader: Grader) -> Kind:
    """Return the usual kind after a thought, which rwkv-skills has with --enable-think; `grader` grades what follows
    it."""
    profile, version = RWKV_SKILLS_THINKING
    stages = (replace(kind.stages[0], prompt=thinking_prompt, sampling=THINKING),)
    return replace(
        kind,
        name=f"{NAME}.{profile}",
        profile=profile,
        profile_version=version,
        stages=stages,
        grader=grader,
        default=False,
    )


def asked(row: Row) -> str:
    """Return the prompt as the user's turn of a conversation."""
    return str(row["question"])


def chat(grader: Grader, metrics: tuple[str, ...]) -> Kind:
    """Return the kind of one turn of a conversation; `grader` grades what follows thoughts, if there are any."""
    return replace(chat_turn.chat(NAME, asked, grader), metrics=metrics)


def lm_eval(grader: Grader, metrics: tuple[str, ...]) -> Kind:
    """Return the kind with the unchanged prompt, greedy, 1,280 tokens, no stop but the end of text."""
    profile, version = LM_EVAL
    kind = whole(grader, metrics)
    stage = Stage(
        name="answer", mode="generate", prompt=lambda row: str(row["question"]), sampling=Sampling(max_tokens=1280)
    )
    return replace(
        kind, name=f"{NAME}.{profile}", profile=profile, profile_version=version, stages=(stage,), default=False
    )
