"""How likely given text is: the last word of a passage, or whole documents."""

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders import bits, greedy
from rwkv_data.profiles import HELD_OUT, LM_EVAL


def lambada() -> Kind:
    """A blank and the last word after the rest, as lm-evaluation-harness does (lm_eval/tasks/lambada): right if greedy
    decoding gives it; the perplexity is that of whole words."""
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
    """Each document by itself, from an empty state: bits per byte, which no tokenizer changes."""
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
