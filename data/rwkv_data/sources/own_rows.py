"""Rows of one's own: whatever names their fields have, a question, perhaps choices, and an answer.

The names are those that rwkv-skills takes (its free-answer and multiple-choice loaders), in the order of preference.
"""

from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from rwkv_data import rows
from rwkv_data.benchmark import Benchmark, Row
from rwkv_data.errors import RowError
from rwkv_data.sources.raw import NOTES

QUESTION: Final = ("question", "problem", "prompt", "input", "instruction", "query", "task", "text")
ANSWER: Final = ("answer", "expected_answer", "reference_answer", "target", "output", "solution", "label", "gold")
CHOICES: Final = ("choices", "options", "endings")
SUBJECT: Final = ("subject", "category", "topic")
LICENCE: Final = "your own"


def benchmark(name: str, path: Path) -> Benchmark:
    """What preparation needs to know of a set of own rows; how it is asked follows from its rows afterwards."""
    shape = _Shape()
    return Benchmark(
        name=name,
        version=1,
        domain="free_response",
        title=f"own rows: {path.name}",
        licence=LICENCE,
        split="test",
        rows=0,
        kinds={},
        check_row=shape.check,
        examples=(),
        from_source=from_source,
    )


class _Shape:
    """All rows of a set have choices, or none has."""

    def __init__(self) -> None:
        self._choices: bool | None = None

    def check(self, row: Row) -> None:
        """A question row or a choice row, like those before."""
        has = "choices" in row
        if self._choices not in {None, has}:
            raise RowError(f"{'choices' if has else 'no choices'}, unlike the rows before")
        self._choices = has
        (rows.check_choice if has else rows.check_question)(row)


def from_source(raw: Row) -> dict[str, Any]:
    """A row with the fields "question", "answer" and, if there are any, "choices" and "subject"; others stay."""
    taken = NOTES | {"cells"}
    row = {name: value for name, value in raw.items() if name not in taken and name not in set(QUESTION + ANSWER)}
    question, answer = rows.first(raw, *QUESTION), rows.first(raw, *ANSWER)
    if question is None:
        raise RowError(f"none of {', '.join(QUESTION)} is there to ask")
    choices, letters = _choices(raw)
    if choices is None:
        return row | {"question": question, "answer": _text(answer)}
    plain = {name: value for name, value in row.items() if name not in {*CHOICES, *letters}}
    subject = rows.first(raw, *SUBJECT)
    named = {"subject": str(subject)} if subject else {}
    return plain | {"question": question, "choices": choices, "answer": letter(answer, choices)} | named


def letter(answer: Any, choices: list[str]) -> str:
    """The letter of the right choice, which may be given as a letter, as an index from 0, or as the choice itself."""
    text = _text(answer).strip()
    letters = rows.LETTERS[: len(choices)]
    if len(text) == 1 and text.upper() in letters:
        return text.upper()
    if text in choices and choices.count(text) == 1:
        return letters[choices.index(text)]
    if text.isdecimal() and text.isascii() and len(text) < 3 and int(text) < len(choices):
        return letters[int(text)]
    raise RowError(f"the answer {text[:40]!r} is no letter, index or text of one of the {len(choices)} choices")


def _choices(raw: Row) -> tuple[list[str] | None, list[str]]:
    """The choices, and the names of the fields they came from where each has one of its own (A, B, C, D)."""
    given = rows.first(raw, *CHOICES)
    if isinstance(given, dict) and isinstance(given.get("text"), list):
        given = given["text"]
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list):
        return [_text(choice) for choice in given], []
    letters = list(takewhile(lambda name: raw.get(name) is not None, rows.LETTERS))
    if len(letters) > 1:
        return [_text(raw[name]) for name in letters], letters
    return None, []


def _text(value: Any) -> str:
    """Text, or a number as text: 27.0 is 27."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise RowError(f"{rows.shown(value)} where text or a number belongs")
