"""Raw rows of questions with choices, in the forms that most sets have, as prepared choice rows.

    columns   {"question": "...", "A": "...", "B": "...", ..., "answer": "B"}      (names in any case: "Question")
    index     {"question": "...", "choices": ["...", ...], "answer": 1}

Texts stay as they were published, with blanks around them; "None" and "N/A" are words.
"""

from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.sources.raw import CONFIG, FILE

FOUR = "ABCD"


def of_columns(raw: Row, subject: str, letters: str = FOUR) -> dict[str, Any]:
    """Return the choice row of a raw row with a column for each choice and a letter as answer. An empty answer is one
    that the set keeps secret."""
    answer = rows.first(raw, "answer", "Answer")
    if answer is None or not str(answer).strip():
        raise RowError("'answer' is empty: this split keeps its answers secret")
    return {
        "question": question_of(raw),
        "choices": [_cell(raw, letter) for letter in letters],
        "answer": str(answer).strip(),
        "subject": subject,
    }


def of_index(raw: Row, subject: str, choices: str = "choices") -> dict[str, Any]:
    """Return the choice row of a raw row with a list of choices and the number of the right one, from 0."""
    texts = rows.texts(raw, choices)
    return {
        "question": question_of(raw),
        "choices": texts,
        "answer": letter_of(rows.whole(raw, "answer"), len(texts)),
        "subject": subject,
    }


def question_of(raw: Row) -> str:
    """Return the text of the field `question` or `Question`."""
    return rows.text(raw, "question" if "question" in raw else "Question")


def letter_of(index: int, count: int) -> str:
    """Return the letter of a choice by its number, from 0."""
    if not 0 <= index < min(count, len(rows.LETTERS)):
        raise RowError(f"the answer is number {index} of {count} choices")
    return rows.LETTERS[index]


def subject_of(raw: Row) -> str:
    """Return the subject that a row names, or else its file or configuration: `anatomy_dev.csv` gives anatomy."""
    named = rows.first(raw, "subject", "Subject", CONFIG, FILE)
    name = str(named or "").strip()
    for split in ("_dev", "_val", "_test"):
        name = name.removesuffix(split)
    if not name:
        raise RowError("neither the row nor its file names a subject")
    return name


def check_four(row: Row) -> None:
    """Check that a row has four choices and a subject. Raises RowError."""
    check_subject(row)
    if len(row["choices"]) != 4:
        raise RowError(f"'choices' has {len(row['choices'])} entries, not 4")


def check_subject(row: Row) -> None:
    """Check that a choice row has a subject. Raises RowError."""
    rows.check_choice(row)
    rows.text(row, "subject")


def _cell(raw: Row, letter: str) -> str:
    value = raw.get(letter)
    if not isinstance(value, str):
        raise RowError(f"{letter!r} is {rows.shown(value)}, not text")
    return value
