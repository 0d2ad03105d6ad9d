"""Multiple choice as in rwkv-skills: the likeliest letter right after the question, or after a chain of thought.

The texts are rwkv-skills' (main, src/eval/evaluators/multi_choice.py), which strips the prompt's ends and makes every
line end one byte. Its Chinese texts go to ceval and cmmlu; rwkv-skills itself asks cmmlu in English, because the name
holds neither "ceval" nor "zh" nor "cn": an error that is not kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from rwkv_data.definition import rows
from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders import choice
from rwkv_data.profiles import RWKV_SKILLS
from rwkv_data.profiles.sampling import COT_STOPS, UNPENALISED
from rwkvctl.protocol.engine import Sampling

Prompt: TypeAlias = Callable[[Row], str]

MULTI_CHOICE_COT: Final = Sampling(
    max_tokens=4096,
    temperature=0.5,
    top_k=50,
    top_p=0.3,
    presence=1.0,
    frequency=0.1,
    decay=0.99,
    unpenalised=UNPENALISED,
)


@dataclass(frozen=True, slots=True)
class PromptWording:
    """The text before and after a question with its choices; `{expert}` is filled in. `tail` follows the chain of
    thought."""

    opening: str
    direct: str
    thinking: str
    tail: str


ENGLISH: Final = PromptWording(
    "User: You are {expert}. Answer this question:\n",
    "Assistant: The answer is",
    "Assistant: <think",
    "\nTherefore, the answer is",
)
CHINESE: Final = PromptWording("User: ", "Assistant: 正确答案是", "Assistant:", "\n综上所述，答案是")


def subject(row: Row) -> str:
    """Return the subject in words; empty if it is not known (rwkv-skills would ask an expert in "unknown")."""
    named = str(row.get("subject") or "").strip().replace("_", " ")
    return "" if named.casefold() == "unknown" else named


def expert(row: Row) -> str:
    """Return who is asked: an expert, in the subject if the row has one."""
    return "a very talented expert" + (f" in {named}" if (named := subject(row)) else "")


def choice_lines(row: Row) -> str:
    """Return the choices, each on a line with its letter."""
    return "\n".join(f"{letter}. {text}" for letter, text in zip(rows.letters(row), row["choices"], strict=True))


def asked(row: Row, wording: PromptWording, assistant: str) -> str:
    """Return the question with its choices and the beginning of the answer; ends stripped, line ends one byte."""
    opening = wording.opening.replace("{expert}", expert(row))
    text = f"{opening}{row['question']}\n{choice_lines(row)}\n\n{assistant}"
    return text.strip().replace("\r\n", "\n")


def spaced_letters(row: Row) -> tuple[str, ...]:
    """Return " A", " B", ...: each a single token of the World vocabulary."""
    return tuple(f" {letter}" for letter in rows.letters(row))


def multi_choice_plain(
    *, group_by: str = "", wording: PromptWording = ENGLISH, shots: bool = False, default: bool = True
) -> Kind:
    """Return the kind of one stage: the likeliest letter right after the prompt. With `shots` the set has a pool of
    examples, of which none is shown unless a dispatch asks for some; they are the same prompt with the answer's
    letter."""
    profile, version = RWKV_SKILLS

    def prompt(row: Row) -> str:
        return asked(row, wording, wording.direct)

    return Kind(
        name="multi_choice_plain",
        profile=profile,
        profile_version=version,
        stages=(letter_stage("answer", prompt),),
        grader=choice.GRADER,
        group_by=group_by,
        shots=answered(prompt, by=group_by) if shots else None,
        default=default,
    )


def multi_choice_cot(
    *, group_by: str = "", wording: PromptWording = ENGLISH, repeats: int = 1, default: bool = True
) -> Kind:
    """Return the kind of two stages: a sampled chain of thought, then the likeliest letter after a closing phrase."""
    profile, version = RWKV_SKILLS
    return Kind(
        name="multi_choice_cot",
        profile=profile,
        profile_version=version,
        stages=(
            Stage(
                name="cot",
                mode="generate",
                prompt=lambda row: asked(row, wording, wording.thinking),
                sampling=MULTI_CHOICE_COT,
                stops=COT_STOPS,
            ),
            letter_stage("final", lambda _row: wording.tail),
        ),
        grader=choice.GRADER,
        repeats=repeats,
        metrics=("pass@1",) if repeats == 1 else (f"avg@{repeats}",),
        group_by=group_by,
        default=default,
    )


def letter_stage(name: str, prompt: Prompt) -> Stage:
    """Return the stage of the log-likelihood of each letter after a prompt or tail."""
    return Stage(name=name, mode="choose", prompt=prompt, choices=spaced_letters)


def answered(prompt: Prompt, *, by: str = "") -> FewShot:
    """Return few-shot examples that are the prompt itself with the answer's letter; none by default."""
    return FewShot(count=0, example=lambda row: f"{prompt(row)} {row['answer']}", by=by)
