"""The short prompts that the built-in checkpoint was trained on."""

from rwkv_data.definition import rows
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Stage
from rwkv_data.graders import choice
from rwkv_data.prepare.demo_rows import lookup_prompt
from rwkv_data.profiles import DEMO
from rwkvctl.protocol.engine import Sampling, Stops


def free_response(grader: Grader) -> Kind:
    """Return the kind with the bare question; greedy; the answer ends with its line."""
    profile, version = DEMO
    stage = Stage(
        name="answer",
        mode="generate",
        prompt=lambda row: str(row["question"]),
        sampling=Sampling(max_tokens=8),
        stops=Stops(suffixes=("\n",)),
        user=lambda row: str(row["question"]),
    )
    return Kind(name="free_response", profile=profile, profile_version=version, stages=(stage,), grader=grader)


def multi_choice() -> Kind:
    """Return the kind with a legend of labelled words and one of them; the next token is its letter, without a blank
    before it."""
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
