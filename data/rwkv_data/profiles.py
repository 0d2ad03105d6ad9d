"""How rows become prompts: the profiles, each named and versioned, because a prompt decides a score.

`rwkv-skills-v1` asks byte for byte as rwkv-skills does (no few-shot, no chat template; the open `<think` is deliberate:
the model writes the `>`). `demo-v1` is the short form that the built-in checkpoint was trained on.
Stops and unpenalised tokens are named by their bytes: in the World vocabulary 0, 261, 24281 are the end of text,
"\\n\\n" and "User"; 2402 and 4910 are "}\\" and " }\\"; 33, 10, 49..58 are " ", tab and the digits.
"""

from rwkv_data import rows
from rwkv_data.benchmark import Grader, Kind, Row, Stage
from rwkv_data.demo_rows import lookup_prompt
from rwkv_data.graders import choice
from rwkv_data.graders.boxed import closes_box
from rwkvctl.protocol.engine import Sampling, Stops

RWKV_SKILLS = ("rwkv-skills-v1", 1)
DEMO = ("demo-v1", 1)

_UNPENALISED = (" ", "\t", *"0123456789")
_COT_STOPS = Stops(tokens=("\n\n", "User"))
_FINAL_STOPS = Stops(tokens=("}\\", " }\\"))

FREE_RESPONSE_COT = Sampling(
    max_tokens=4096,
    temperature=0.3,
    top_k=500,
    top_p=0.4,
    presence=0.5,
    frequency=0.1,
    decay=0.99,
    unpenalised=_UNPENALISED,
)
MATH_COT = Sampling(
    max_tokens=4096,
    temperature=0.55,
    top_k=66,
    top_p=0.79,
    presence=0.14,
    frequency=0.01,
    decay=0.997,
    unpenalised=_UNPENALISED,
)
FREE_RESPONSE_FINAL = Sampling(max_tokens=64, temperature=1.0, top_k=1, top_p=0.3, decay=0.99, unpenalised=_UNPENALISED)


def cot_prompt(row: Row) -> str:
    """The question, and the beginning of a chain of thought."""
    return f"User: {row['question']}\n\nAssistant: <think"


def boxed_tail(row: Row) -> str:
    """What follows the chain of thought, whatever the row: the model completes the box."""
    return "\nTherefore, the answer is \\(\\boxed{"


def direct_choice_prompt(row: Row) -> str:
    """A question with its choices; the next token is a letter. Ends are stripped and line ends made one byte."""
    subject = str(row.get("subject") or "unknown").replace("_", " ")
    lines = "\n".join(f"{letter}. {choice}" for letter, choice in zip(rows.letters(row), row["choices"], strict=True))
    asked = (
        f"User: You are a very talented expert in {subject}. Answer this question:\n"
        f"{row['question']}\n{lines}\n\nAssistant: The answer is"
    )
    return asked.strip().replace("\r\n", "\n")


def spaced_letters(row: Row) -> tuple[str, ...]:
    """ " A", " B", ...: each a single token of the World vocabulary."""
    return tuple(f" {letter}" for letter in rows.letters(row))


def free_response(
    grader: Grader,
    *,
    metrics: tuple[str, ...],
    repeats: int = 1,
    cot: Sampling = FREE_RESPONSE_COT,
    group_by: str = "",
) -> Kind:
    """Two stages: a sampled chain of thought, then the greedy content of a box."""
    profile, version = RWKV_SKILLS
    return Kind(
        name="free_response",
        profile=profile,
        profile_version=version,
        stages=(
            Stage(name="cot", mode="generate", prompt=cot_prompt, sampling=cot, stops=_COT_STOPS),
            Stage(
                name="final",
                mode="generate",
                prompt=boxed_tail,
                sampling=FREE_RESPONSE_FINAL,
                stops=_FINAL_STOPS,
                whole=closes_box,
            ),
        ),
        grader=grader,
        repeats=repeats,
        metrics=metrics,
        group_by=group_by,
    )


def multi_choice_plain(*, group_by: str = "") -> Kind:
    """One stage: the likeliest letter right after the prompt."""
    profile, version = RWKV_SKILLS
    return Kind(
        name="multi_choice_plain",
        profile=profile,
        profile_version=version,
        stages=(Stage(name="answer", mode="choose", prompt=direct_choice_prompt, choices=spaced_letters),),
        grader=choice.GRADER,
        group_by=group_by,
    )


def demo_free_response(grader: Grader) -> Kind:
    """The bare question; greedy; the answer ends with its line."""
    profile, version = DEMO
    stage = Stage(
        name="answer",
        mode="generate",
        prompt=lambda row: str(row["question"]),
        sampling=Sampling(max_tokens=8),
        stops=Stops(suffixes=("\n",)),
    )
    return Kind(name="free_response", profile=profile, profile_version=version, stages=(stage,), grader=grader)


def demo_multi_choice() -> Kind:
    """A legend of labelled words and one of them; the next token is its letter, without a blank before it."""
    profile, version = DEMO
    stage = Stage(
        name="answer",
        mode="choose",
        prompt=lambda row: lookup_prompt(row["choices"], row["question"]),
        choices=lambda row: tuple(rows.letters(row)),
    )
    return Kind(
        name="multi_choice_plain", profile=profile, profile_version=version, stages=(stage,), grader=choice.GRADER
    )
