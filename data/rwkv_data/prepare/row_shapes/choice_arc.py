"""Rows of ARC (Clark et al. 2018, arXiv 1803.05457), in the three forms in which they lie about.

    hub       {"id": "...", "question": "...", "choices": {"text": [...], "label": ["A", ...]}, "answerKey": "C"}
    AI2       {"id": "...", "question": {"stem": "...", "choices": [{"text": "...", "label": "A"}, ...]}, ...}
    adapters  {"instruction": "Please ...: Q\\n\\nAnswer1: ... Answer2: .....", "answer": "answer3"}

The catch: some rows label their choices 1 to 4, so a key is a position among the row's own labels; and not every row
has four. The third form, of LLM-Adapters, holds the choices as running text.
"""

import re
from collections.abc import Iterable
from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row

_INSTRUCTION = re.compile(
    r"Please choose the correct answer to the question: (?P<question>.*?)\n\n"
    r"(?P<choices>Answer1: .*?)\n\nAnswer format: [^\n]*",
    re.DOTALL,
)


def from_source(raw: Row) -> dict[str, Any]:
    """Return the choice row of a raw row in any of the three forms."""
    if "instruction" in raw:
        return _of_adapters(raw)
    if isinstance(raw.get("question"), dict):
        stem = raw["question"]
        question, pairs = rows.text(stem, "stem"), [(c.get("label"), c.get("text")) for c in stem.get("choices", ())]
    else:
        choices = raw.get("choices") or {}
        question = rows.text(raw, "question")
        pairs = list(zip(choices.get("label", ()), choices.get("text", ()), strict=True))
    return _row(question, pairs, rows.text(raw, "answerKey")) | {"id": rows.text(raw, "id")}


def _of_adapters(raw: Row) -> dict[str, Any]:
    parts = _INSTRUCTION.fullmatch(rows.text(raw, "instruction"))
    if parts is None:
        raise RowError("'instruction' is not of the form that LLM-Adapters uses")
    split = re.split(r"(?:^| )Answer(\d): ", parts["choices"])[1:]
    pairs = list(zip(split[::2], split[1::2], strict=True))
    return _row(parts["question"], pairs, rows.text(raw, "answer").removeprefix("answer"))


def _row(question: str, pairs: Iterable[tuple[Any, Any]], key: str) -> dict[str, Any]:
    labelled = list(pairs)
    labels = [label for label, _ in labelled]
    if key not in labels:
        raise RowError(f"the key {key!r} is none of the labels {labels}")
    return {
        "question": question,
        "choices": [text for _, text in labelled],
        "answer": rows.LETTERS[labels.index(key)],
        "subject": "science",
    }
