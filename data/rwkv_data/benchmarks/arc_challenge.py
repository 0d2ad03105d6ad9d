"""ARC-Challenge: 1,172 grade-school science questions of three to five choices (Clark et al. 2018, arXiv 1803.05457).

    hub       {"id": "...", "question": "...", "choices": {"text": [...], "label": ["A", ...]}, "answerKey": "C"}
    AI2       {"id": "...", "question": {"stem": "...", "choices": [{"text": "...", "label": "A"}, ...]}, ...}
    adapters  {"instruction": "Please ...: Q\\n\\nAnswer1: ... Answer2: .....", "answer": "answer3"}

The catch: some rows label their choices 1 to 4, so a key is a position among the row's own labels; and not every row
has four. The third form, of LLM-Adapters, holds the choices as running text.
"""

import re
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.errors import RowError
from rwkv_data.profiles.multi_choice import multi_choice_plain

_INSTRUCTION = re.compile(
    r"Please choose the correct answer to the question: (?P<question>.*?)\n\n"
    r"(?P<choices>Answer1: .*?)\n\nAnswer format: [^\n]*",
    re.DOTALL,
)


def from_source(raw: Row) -> dict[str, Any]:
    """Any of the three shapes."""
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


def _row(question: str, pairs: list[tuple[Any, Any]], key: str) -> dict[str, Any]:
    labels = [label for label, _ in pairs]
    if key not in labels:
        raise RowError(f"the key {key!r} is none of the labels {labels}")
    return {
        "question": question,
        "choices": [text for _, text in pairs],
        "answer": rows.LETTERS[labels.index(key)],
        "subject": "science",
    }


_SKIN = {
    "question": "Which skin surface will produce the most heat?",
    "choices": ["dry palms", "wet palms", "oiled palms"],
    "answer": "A",
    "subject": "science",
}

BENCHMARK = Benchmark(
    name="arc_challenge",
    version=1,
    domain="multi_choice",
    title="ARC-Challenge, science questions",
    licence="CC BY-SA 4.0",
    split="test",
    rows=1172,
    source=HubSource("allenai/ai2_arc", "ARC-Challenge", "test"),
    from_source=from_source,
    check_row=rows.check_choice,
    local_files=("llm_adapters_test.json", "ARC-Challenge-Test.jsonl", "test.jsonl"),
    kinds=by_name([multi_choice_plain()]),
    examples=(
        Example(_SKIN, Answer(logprobs=(-0.5, -1.0, -2.0)), 1.0),
        Example(_SKIN, Answer(logprobs=(-1.5, -1.0, -2.0)), 0.0),
    ),
)
