r"""Multiple choice as rwkv-skills' later branches ask it (agent-bench): one English wording for every set.

    without thinking   User: ...\n\nAssistant: Therefore, the answer is
    fake thinking      User: ...\n\nAssistant: <think>\n</think>\nTherefore, the answer is
    thinking           User: ...\n\nAssistant: <think>, then after the thought </think>\nTherefore, the answer is

The sampling is that of the first profile. Here the chain of thought also ends where the model closes it, which that
branch does not notice: it goes on with a second `</think>`.
"""

from dataclasses import replace

from msgspec.structs import replace as replace_fields

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.profiles import RWKV_SKILLS_V2
from rwkv_data.profiles.multi_choice import answered, choice_lines, expert, letter_stage, multi_choice_cot
from rwkv_data.profiles.multi_choice import multi_choice_plain as plain_v1

FINAL = "Therefore, the answer is"
END_OF_THOUGHT = "</think>"


def user_part(row: Row) -> str:
    """Return the user's turn: the question with its choices, and the form of the answer."""
    return (
        f"User: You are {expert(row)}.\n"
        "Answer this question and finish with a single option letter.\n"
        f"Question: {row['question']}\nChoices:\n{choice_lines(row)}\n\n"
    )


def direct_prompt(row: Row) -> str:
    """Return the prompt without a thinking block: the answer letter comes next."""
    return f"{user_part(row)}Assistant: {FINAL}"


def fake_cot_prompt(row: Row) -> str:
    """Return the prompt with an empty thinking block before the answer letter."""
    return f"{user_part(row)}Assistant: <think>\n{END_OF_THOUGHT}\n{FINAL}"


def cot_prompt(row: Row) -> str:
    """Return the prompt with an opened thinking block."""
    return f"{user_part(row)}Assistant: <think>"


def multi_choice_v2(*, group_by: str = "", shots: bool = False, repeats: int = 1) -> list[Kind]:
    """Return the three kinds, which run only when named: multi_choice_fake_cot, and the first profile's two under this
    one's name."""
    plain = plain_v1(group_by=group_by, default=False)
    fake = replace(
        plain,
        name="multi_choice_fake_cot",
        stages=(letter_stage("answer", fake_cot_prompt),),
        shots=answered(fake_cot_prompt, by=group_by) if shots else None,
    )
    direct = replace(
        plain,
        name="multi_choice_plain.rwkv-skills-v2",
        stages=(letter_stage("answer", direct_prompt),),
        shots=answered(direct_prompt, by=group_by) if shots else None,
    )
    return [_of_profile(kind) for kind in (fake, direct, _cot(group_by, repeats))]


def _cot(group_by: str, repeats: int) -> Kind:
    kind = multi_choice_cot(group_by=group_by, repeats=repeats, default=False)
    thinking = kind.stages[0]
    stops = replace_fields(thinking.stops, suffixes=(END_OF_THOUGHT,))
    stages = (
        replace(thinking, prompt=cot_prompt, stops=stops),
        letter_stage("final", lambda _row: f"{END_OF_THOUGHT}\n{FINAL}"),
    )
    return replace(kind, name="multi_choice_cot.rwkv-skills-v2", stages=stages)


def _of_profile(kind: Kind) -> Kind:
    profile, version = RWKV_SKILLS_V2
    return replace(kind, profile=profile, profile_version=version)
