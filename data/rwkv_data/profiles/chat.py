"""Open prompts, whose answers a judge compares with a given one."""

import contextlib
from typing import Final

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.judges.judge_rule import JudgeRule
from rwkv_data.prepare.row_shapes.arena_rows import BASELINE
from rwkv_data.profiles import RWKV_SKILLS_WHOLE
from rwkv_data.profiles.instruction import FOLLOWING, NEXT_TURN, prompt

_LOST: Final = {"won": 0.0, "weight": 6.0, "agreed": 1.0}
"""Both games lost by far: the result of an empty answer with any judge."""


def grade(_row: Row, answer: Answer) -> Grade:
    """Grade by compared-v1: an empty answer loses; every other one waits for the judge."""
    text = answer.text.strip()
    if not text:
        return Grade(0.0, None, BASELINE, "no_answer", parts=_LOST)
    return Grade(None, text, BASELINE, "unjudged", "both games are to be judged", route="all")


def pairwise_judge(rule: JudgeRule) -> Kind:
    """Return the kind with the prompt and sampling of instructions, and two games against the row's `baseline`.

    The headline is the mean of the games; `agreed` is the share of prompts whose games had the same winner.
    """
    profile, version = RWKV_SKILLS_WHOLE
    grader = Grader(name="compared-v1", version="1", open=lambda: contextlib.nullcontext(grade), judge=rule)
    return Kind(
        name="pairwise_judge",
        profile=profile,
        profile_version=version,
        stages=(Stage(name="answer", mode="generate", prompt=prompt, sampling=FOLLOWING, stops=NEXT_TURN),),
        grader=grader,
        metrics=("accuracy", "agreed"),
    )
