"""MMLU: 14,042 four-choice questions of 57 subjects (Hendrycks et al. 2021, arXiv 2009.03300).

    hub    {"question": "...", "subject": "abstract_algebra", "choices": ["0", "1", "2", "3"], "answer": 1}
    zip    data/test/abstract_algebra_test.csv: question, four choices, letter; no header; subject: see the name

The catch: some choices are the words "None" and "N/A", which data-frame readers turn into missing values. The csv
module keeps them. The overall score weighs every question alike; `groups` gives each subject, and their plain mean.
"""

from typing import Any

from rwkv_data import profiles, rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.errors import RowError


def from_source(raw: Row) -> dict[str, Any]:
    """A hub row, or the cells of a line of csv."""
    if "cells" in raw:
        question, *choices, answer = _six(raw["cells"])
        return {
            "question": question,
            "choices": choices,
            "answer": answer.strip(),
            "subject": rows.text(raw, "subject"),
        }
    index = raw.get("answer")
    if not isinstance(index, int) or not 0 <= index <= 3:
        raise RowError(f"'answer' is {index!r}, not an index from 0 to 3")
    return {
        "question": rows.text(raw, "question"),
        "choices": rows.texts(raw, "choices"),
        "answer": rows.LETTERS[index],
        "subject": rows.text(raw, "subject"),
    }


def _six(cells: list[str]) -> list[str]:
    if len(cells) != 6:
        raise RowError(f"{len(cells)} cells; a question, four choices and a letter are 6")
    return cells


def check_row(row: Row) -> None:
    """A choice row of four choices with a subject."""
    rows.check_choice(row)
    rows.text(row, "subject")
    if len(row["choices"]) != 4:
        raise RowError(f"'choices' has {len(row['choices'])} entries, not 4")


_CYCLIC = {
    "question": "Which choice is the word itself?",
    "choices": ["None", "N/A", "0", "1"],
    "answer": "B",
    "subject": "abstract_algebra",
}

BENCHMARK = Benchmark(
    name="mmlu",
    version=1,
    domain="multi_choice",
    title="MMLU, 57 subjects, four choices",
    licence="MIT",
    split="test",
    rows=14042,
    source=HubSource("cais/mmlu", "all", "test"),
    from_source=from_source,
    check_row=check_row,
    local_files=("mmlu.zip", "data.zip"),
    kinds=by_name([profiles.multi_choice_plain(group_by="subject")]),
    examples=(
        Example(_CYCLIC, Answer(logprobs=(-2.0, -0.5, -3.0, -4.0)), 1.0),
        Example(_CYCLIC, Answer(logprobs=(-0.1, -0.5, -3.0, -4.0)), 0.0),
        Example(_CYCLIC, Answer(logprobs=(-1.0, -1.0, -3.0, -4.0)), 0.0),
    ),
)
