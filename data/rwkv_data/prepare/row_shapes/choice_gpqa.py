"""GPQA: questions of biology, physics and chemistry that a search engine does not answer (Rein et al. 2023, arXiv
2311.12022), in three selections.

    {"Record ID": "...", "Question": "...", "Correct Answer": "...", "Incorrect Answer 1": "...", "Subdomain": "..."}

Its authors ask that no row be published as text or picture: a prepared row must not be shown, logged or exported
without the consent of whoever was given access. The set is gated for that reason.

The right answer stands first in the set. The order asked is stored with the row and depends on the row alone;
lm-evaluation-harness draws a new one for each run, rwkv-skills one for each preparation, so scores of single rows do
not compare with theirs.
"""

from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.benchmark import Benchmark, Example, HubSource, by_name
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.row_shapes.choice_rows import check_four
from rwkv_data.profiles import multi_choice_lm_eval
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_text import multi_choice_text
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2

REPEATS = 16
_EXAMPLE = {
    "question": "Which of these numbers is even?",
    "choices": ["1", "3", "4", "5"],
    "answer": "C",
    "subject": "arithmetic",
}


def from_source(raw: Row) -> dict[str, Any]:
    """The question with its four answers in a fixed order of their own."""
    right = rows.text(raw, "Correct Answer").strip()
    wrong = [str(raw[f"Incorrect Answer {number}"] or "").strip() for number in (1, 2, 3)]
    name = str(raw.get("Record ID") or "") or rows.text(raw, "Question")
    choices, letter = rows.shuffled([right, *wrong], 0, name)
    return {
        "question": rows.text(raw, "Question"),
        "choices": choices,
        "answer": letter,
        "subject": str(raw.get("Subdomain") or "unknown"),
        "id": str(raw.get("Record ID") or ""),
    }


def benchmark(selection: str, count: int) -> Benchmark:
    """One of the selections: main, extended or diamond."""
    return Benchmark(
        name=f"gpqa_{selection}",
        version=1,
        domain="multi_choice",
        title=f"GPQA {selection}, graduate-level science; its rows must not be shown",
        licence="CC BY 4.0, gated",
        split="train",
        rows=count,
        private=True,
        source=HubSource("Idavidrein/gpqa", f"gpqa_{selection}", "train", gated=True),
        from_source=from_source,
        check_row=check_four,
        local_files=(f"gpqa_{selection}.csv", f"dataset/gpqa_{selection}.csv", "train.jsonl"),
        kinds=by_name(
            [
                multi_choice_plain(group_by="subject"),
                multi_choice_cot(group_by="subject", repeats=REPEATS),
                *multi_choice_v2(group_by="subject", repeats=REPEATS),
                multi_choice_text(group_by="subject"),
                multi_choice_lm_eval.gpqa(),
            ]
        ),
        examples=(
            Example(_EXAMPLE, Answer(logprobs=(-2.0, -1.5, -0.5, -3.0)), 1.0),
            Example(_EXAMPLE, Answer(logprobs=(-0.1, -1.5, -0.5, -3.0)), 0.0),
            Example(_EXAMPLE, Answer("Answer: C", ("stop_token",)), 1.0, kind="multi_choice_cot.simple-evals"),
            Example(_EXAMPLE, Answer("Answer: D", ("stop_token",)), 0.0, kind="multi_choice_cot.simple-evals"),
        ),
    )
