"""Which text of a benchmark's row is compared with problems: what a model is shown of the row when it is asked.

Every benchmark keeps what is asked in one of `PROBLEM`. `BESIDE` is what is asked with it: choices (which hold most of
the text where a text is to be continued), asserts of MBPP, the faulty body of HumanEvalFix, the answers that are to be
judged. Of a translation both sides count, because a pair in the other direction gives it away as well. Solutions and
answers do not count, nor do bodies to begin with (`starter_code`), which thousands of tasks have in common.

A row of an operator's benchmark that has none of `PROBLEM` is compared with all texts in it.
"""

from collections.abc import Iterator
from typing import Any, Final

from rwkv_data.definition.rows import LETTERS
from rwkv_data.definition.stage import Row

PROBLEM: Final = ("question", "prompt", "problem", "text")
CHOICES: Final = "choices"
BESIDE: Final = ("context", "passage", "test_list", "buggy_solution", "reference", "generated")


def passages(row: Row) -> tuple[str, ...]:
    """Return the texts of a row, the problem first; empty if it has no text."""
    problem = next((row[name] for name in PROBLEM if isinstance(row.get(name), str)), None)
    if problem is None:
        return tuple(filter(None, map(_text, row.values())))
    beside = [*BESIDE, *(["answer"] if "target_language" in row else [])]
    choices = row.get(CHOICES)
    return (
        problem,
        *map(_text, choices if isinstance(choices, list) else []),
        *filter(None, (_text(row.get(name)) for name in beside)),
    )


def whole_forms(texts: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that problems are compared with, given those of a row's texts: the first alone, all of them, and
    all with letters before those beside it, as choices are printed."""
    yield texts[0]
    if len(texts) > 1:
        yield " ".join(filter(None, texts))
        lettered = (part for choice in zip(LETTERS.lower(), texts[1:], strict=False) for part in choice)
        yield " ".join(filter(None, (texts[0], *lettered)))


def _text(value: Any) -> str:
    """A text, or the texts of a list one after the other; empty for anything else."""
    if isinstance(value, list):
        return " ".join(filter(None, map(_text, value)))
    return value if isinstance(value, str) else ""
