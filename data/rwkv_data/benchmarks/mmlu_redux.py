"""MMLU-Redux 2.0: 5,700 questions of MMLU looked at again by people (Gema et al. 2024, arXiv 2406.04127).

    {"question": "...", "choices": ["...", ...], "answer": 1, "error_type": "ok", "source": "...",
     "correct_answer": null, "potential_reason": null}            in a configuration for each of 57 subjects

Asked are the rows that were found right ("ok"), and those with a wrong label ("wrong_groundtruth") by the answer that
the annotators put in its place, where that is one of the choices (a letter, a number from 0, or the choice's text).
Left out are unclear questions and choices, rows with no right choice or several, rows for experts, and wrong labels for
which nothing usable was put: 5,431 remain by rwkv-skills' count, which takes the same rows. `error_type` stays in the
row.
"""

from collections.abc import Sequence
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.prepare.row_shapes.choice_mmlu import SUBJECTS
from rwkv_data.prepare.row_shapes.choice_rows import FOUR, check_four, of_index, subject_of
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


def from_source(raw: Row) -> dict[str, Any] | None:
    """The row with the answer that holds, or None."""
    error_type = rows.text(raw, "error_type").strip()
    row = of_index(raw, subject_of(raw))
    if error_type == "wrong_groundtruth":
        row["answer"] = corrected(str(raw.get("correct_answer") or ""), row["choices"])
    elif error_type != "ok":
        return None
    row["choices"] = [choice.strip() for choice in row["choices"]]
    return row | {"question": row["question"].strip(), "error_type": error_type} if row["answer"] else None


def corrected(answer: str, choices: Sequence[str]) -> str:
    """The letter of the choice that is meant, or nothing where that is not plain."""
    answer = answer.strip()
    meant = {letter for letter, choice in zip(FOUR, choices, strict=False) if choice.strip() == answer}
    if answer and answer.upper() in FOUR and len(answer) == 1:
        meant.add(answer.upper())
    if answer in {"0", "1", "2", "3"}:
        meant.add(FOUR[int(answer)])
    return meant.pop() if len(meant) == 1 else ""


_RELABELLED = {
    "question": "Which number is prime?",
    "choices": ["4", "6", "7", "8"],
    "answer": "C",
    "subject": "elementary_mathematics",
    "error_type": "wrong_groundtruth",
}

BENCHMARK = Benchmark(
    name="mmlu_redux",
    version=1,
    domain="multi_choice",
    title="MMLU-Redux 2.0, questions of MMLU with labels put right",
    licence="CC BY 4.0",
    split="test",
    rows=5431,
    source=HubSource("edinburgh-dawg/mmlu-redux-2.0", "", "test", configs=SUBJECTS),
    from_source=from_source,
    check_row=check_four,
    local_files=("test.jsonl", "*/data-*.arrow"),
    schema_verified=False,
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject"),
            multi_choice_cot(group_by="subject"),
            *multi_choice_v2(group_by="subject"),
        ]
    ),
    examples=(
        Example(_RELABELLED, Answer(logprobs=(-2.0, -1.5, -0.5, -3.0)), 1.0),
        Example(_RELABELLED, Answer(logprobs=(-0.1, -1.5, -0.5, -3.0)), 0.0),
    ),
)
