"""SuperGPQA: 26,529 graduate-level questions of 285 fields with up to ten choices (M-A-P 2025, arXiv 2502.14739).

    {"uuid": "...", "question": "...", "options": ["...", ...], "answer": "the text", "answer_letter": "B",
     "discipline": "Science", "field": "Physics", "subfield": "...", "difficulty": "hard", "is_calculation": true}

The catch: like rwkv-skills, preparation puts the choices into another order and makes all white space single blanks;
here the order depends on the row's uuid alone and is stored, so it is the same in every preparation.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.prepare.row_shapes.choice_rows import check_subject
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


def from_source(raw: Row) -> dict[str, Any]:
    """Return the choice row, with choices shuffled by the row's uuid and the discipline as subject."""
    options = [" ".join(option.split()) for option in rows.texts(raw, "options")]
    letter = rows.text(raw, "answer_letter").strip()
    if len(letter) != 1 or letter not in rows.LETTERS[: len(options)]:
        raise RowError(f"'answer_letter' is {letter!r} with {len(options)} options")
    choices, answer = rows.shuffled(options, rows.LETTERS.index(letter), str(raw.get("uuid") or raw["question"]))
    return {
        "question": " ".join(rows.text(raw, "question").split()),
        "choices": choices,
        "answer": answer,
        "subject": rows.text(raw, "discipline"),
        **{name: str(raw.get(name) or "") for name in ("field", "subfield", "difficulty", "uuid")},
    }


_PLANET = {
    "question": "Which planet is nearest to the sun?",
    "choices": ["Venus", "Earth", "Mercury", "Mars", "Saturn"],
    "answer": "C",
    "subject": "Science",
}

BENCHMARK = Benchmark(
    name="supergpqa",
    version=1,
    domain="multi_choice",
    title="SuperGPQA, graduate-level questions of 13 disciplines",
    licence="ODC-BY",
    split="train",
    rows=26529,
    source=HubSource("m-a-p/SuperGPQA", "default", "train"),
    from_source=from_source,
    check_row=check_subject,
    local_files=("SuperGPQA-all.jsonl", "train.jsonl"),
    schema_verified=False,
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject"),
            multi_choice_cot(group_by="subject"),
            *multi_choice_v2(group_by="subject"),
        ]
    ),
    examples=(
        Example(_PLANET, Answer(logprobs=(-2.0, -1.5, -0.5, -3.0, -4.0)), 1.0),
        Example(_PLANET, Answer(logprobs=(-2.0, -1.5, -0.5, -3.0, -0.1)), 0.0),
    ),
)
