"""The two shapes of prepared rows, the checks that refuse anything else, and the one text form in which rows are
stored and hashed.

    question row   {"question": text, "answer": text, ...}
    choice row     {"question": text, "choices": [text, ...], "answer": one of the first letters, ...}
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def text(row: Row, field: str) -> str:
    """Return a field that must hold text that is not blank. Raises RowError."""
    value = row.get(field)
    if not isinstance(value, str):
        raise RowError(f"{field!r} is {shown(value)}, not text")
    if not value.strip():
        raise RowError(f"{field!r} is empty")
    return value


def texts(row: Row, field: str) -> list[str]:
    """Return a field that must hold a list of texts, blank ones included. Raises RowError."""
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RowError(f"{field!r} is {shown(value)}, not a list of texts")
    return value


def whole(row: Row, field: str) -> int:
    """Return a field that must hold a whole number. Raises RowError."""
    value = row.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RowError(f"{field!r} is {shown(value)}, not a whole number")
    return value


def check_question(row: Row) -> None:
    """Check that a row has a question and an answer. Raises RowError."""
    text(row, "question")
    text(row, "answer")


def check_choice(row: Row) -> None:
    """Check that a row has a question, two or more choices, and the letter of one as answer. Raises RowError."""
    text(row, "question")
    choices, answer = texts(row, "choices"), text(row, "answer")
    if not 2 <= len(choices) <= len(LETTERS):
        raise RowError(f"'choices' has {len(choices)} entries")
    if answer not in list(LETTERS[: len(choices)]):
        raise RowError(f"'answer' is {answer!r}, which is none of the {len(choices)} choices")


def letters(row: Row) -> str:
    """Return the letters of a choice row's choices."""
    return LETTERS[: len(row["choices"])]


def first(row: Row, *names: str) -> Any:
    """Return the first of the fields that is present and not None; else None."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def shuffled(choices: Sequence[str], answer: int, seed: str) -> tuple[list[str], str]:
    """The choices in an order that depends on the seed text alone (the question, its id), and the right one's letter.

    For sets that list the right answer first (GPQA): the order is stored with the row, so every model and every run is
    asked the same. Ordered by hashes, which no version of a random generator changes.
    """
    if not 0 <= answer < len(choices) <= len(LETTERS):
        raise RowError(f"the right answer is number {answer} of {len(choices)} choices")
    keys = [
        hashlib.sha256(f"{number}\0{seed}".encode("utf-8", "surrogatepass")).digest() for number in range(len(choices))
    ]
    order = sorted(range(len(choices)), key=keys.__getitem__)
    return [choices[number] for number in order], LETTERS[order.index(answer)]


def json_text(value: Any) -> str:
    """Return a value as JSON text, for what only the sandbox reads and for values that JSON itself cannot hold (NaN and
    infinity among a program's inputs)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def canonical(row: Row) -> bytes:
    """One line of canonical JSONL: sorted keys, no blanks, UTF-8 as it is. Hashes of rows are hashes of these lines."""
    try:
        line = json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return line.encode() + b"\n"
    except UnicodeEncodeError as error:
        raise RowError(f"the row holds text that is not Unicode ({error.reason})") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"the row holds a value that JSON cannot say ({error})") from None


def shown(value: Any) -> str:
    """Return a value as error messages show it: `missing` for None, else its repr cut to 60 characters."""
    return "missing" if value is None else repr(value)[:60]
