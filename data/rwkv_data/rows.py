"""The two shapes of prepared rows, the checks that refuse anything else, and the one text form in which rows are
stored and hashed.

    question row   {"question": text, "answer": text, ...}
    choice row     {"question": text, "choices": [text, ...], "answer": one of the first letters, ...}
"""

import json
from typing import Any

from rwkv_data.benchmark import Row
from rwkv_data.errors import RowError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def text(row: Row, field: str) -> str:
    """A field that must hold text with something in it."""
    value = row.get(field)
    if not isinstance(value, str):
        raise RowError(f"{field!r} is {_shown(value)}, not text")
    if not value.strip():
        raise RowError(f"{field!r} is empty")
    return value


def texts(row: Row, field: str) -> list[str]:
    """A field that must hold a list of texts (each may be blank: a choice can be)."""
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RowError(f"{field!r} is {_shown(value)}, not a list of texts")
    return value


def whole(row: Row, field: str) -> int:
    """A field that must hold a whole number."""
    value = row.get(field)
    if not isinstance(value, int):
        raise RowError(f"{field!r} is {_shown(value)}, not a whole number")
    return value


def check_question(row: Row) -> None:
    """Refuse what is no question row."""
    text(row, "question")
    text(row, "answer")


def check_choice(row: Row) -> None:
    """Refuse what is no choice row."""
    text(row, "question")
    choices, answer = texts(row, "choices"), text(row, "answer")
    if not 2 <= len(choices) <= len(LETTERS):
        raise RowError(f"'choices' has {len(choices)} entries")
    if answer not in list(LETTERS[: len(choices)]):
        raise RowError(f"'answer' is {answer!r}, which is none of the {len(choices)} choices")


def letters(row: Row) -> str:
    """The letters of a choice row's choices."""
    return LETTERS[: len(row["choices"])]


def canonical(row: Row) -> bytes:
    """One line of canonical JSONL: sorted keys, no blanks, UTF-8 as it is. Hashes of rows are hashes of these lines."""
    line = json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    try:
        return line.encode() + b"\n"
    except UnicodeEncodeError as error:
        raise RowError(f"the row holds text that is not Unicode ({error.reason})") from None


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:60]
