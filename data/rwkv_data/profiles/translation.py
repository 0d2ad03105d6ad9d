r"""Translation, without examples. The wording is ours, as rwkv-skills prepares these sets and asks none:

    User: Translate the following text from English into German. Give only the translation.\nTEXT\n\nAssistant:

Greedy; the answer ends where the next turn would begin, or, for sets of single sentences, at the first blank line.
"""

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders.translation import GRADER
from rwkv_data.profiles import TRANSLATE
from rwkv_data.profiles.chat_turn import as_prompt
from rwkvctl.protocol.engine import Sampling, Stops


def instruction(row: Row) -> str:
    """Return the instruction, which names both languages, and the text."""
    return (
        f"Translate the following text from {row['source_language']} into {row['target_language']}. "
        f"Give only the translation.\n{row['question']}"
    )


def translation(*, max_tokens: int, sentences: bool) -> Kind:
    """Return the kind: one stage, scored by chrF++ and BLEU for the whole set and for each pair of languages."""
    profile, version = TRANSLATE
    stops = Stops(suffixes=("\n\n", "\nUser:") if sentences else ("\n\nUser:", "\nUser:"))
    return Kind(
        name="translation",
        profile=profile,
        profile_version=version,
        stages=(
            Stage(
                name="answer",
                mode="generate",
                prompt=as_prompt(instruction),
                sampling=Sampling(max_tokens=max_tokens),
                stops=stops,
                user=instruction,
            ),
        ),
        grader=GRADER,
        metrics=("chrf", "bleu"),
        group_by="pair",
    )
