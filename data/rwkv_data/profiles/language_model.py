"""The likelihood of given text: the last word of a passage, or whole documents."""

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders import bits, greedy
from rwkv_data.profiles import HELD_OUT, LM_EVAL


def lambada() -> Kind:
    """Return the kind that scores a blank and the last word after the rest, as lm-evaluation-harness does
    (lm_eval/tasks/lambada): right if greedy decoding gives it; the perplexity is that of whole words."""
    profile, version = LM_EVAL
    stage = Stage(
        name="word",
        mode="choose",
        prompt=lambda row: str(row["question"]),
        choices=lambda row: (f" {row['answer']}",),
        split="lm-eval",
    )
    return Kind(
        name="lambada",
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=greedy.GRADER,
        metrics=("accuracy", "word_perplexity"),
    )


def perplexity() -> Kind:
    """Return the kind that scores each document from an empty state: bits per byte, which do not depend on the
    tokenizer."""
    profile, version = HELD_OUT
    stage = Stage(name="document", mode="choose", prompt=_nothing, choices=lambda row: (str(row["text"]),))
    return Kind(
        name="perplexity",
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=bits.GRADER,
        metrics=("bits_per_byte", "word_perplexity"),
    )


def _nothing(_row: Row) -> str:
    return ""
