"""Rows of one's own: whatever names their fields have, a question, perhaps choices, and an answer.

The names are those that rwkv-skills takes (its free-answer and multiple-choice loaders), in the order of preference,
in capitals or not.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.sources import own_choices
from rwkv_data.prepare.sources.own_choices import FORMS, Choices, Form, as_text
from rwkv_data.prepare.sources.raw import NOTES

QUESTION: Final = ("question", "problem", "prompt", "input", "instruction", "query", "task", "text")
ANSWER: Final = (
    *("answer", "expected_answer", "reference_answer", "target", "output", "solution", "label", "gold"),
    *("correct_answer", "ground_truth", "answer_key", "answerkey"),
)
CHOICES: Final = ("choices", "options", "endings")
STEMS: Final = tuple(stem + line for stem in ("option", "choice", "opt", "op") for line in ("_", ""))
"""Of fields that hold a choice each, as A, B, C, ... do: option_a, choice1."""
SUBJECT: Final = ("subject", "category", "topic")
LICENCE: Final = "your own"
VERSION: Final = 2
"""Of what becomes of rows: those that another version read are to be read again. 2: an integer is always an index."""


def benchmark(name: str, path: Path, forms: Collection[Form] = FORMS) -> Benchmark:
    """What preparation needs to know of a set of own rows; how it is asked follows from its rows afterwards."""
    shape = _Shape()
    return Benchmark(
        name=name,
        version=VERSION,
        domain="free_response",
        title=f"own rows: {path.name}",
        licence=LICENCE,
        split="test",
        rows=0,
        kinds={},
        check_row=shape.check,
        examples=(),
        from_source=partial(from_source, forms=forms),
    )


def common_forms(raws: Iterable[Row]) -> Collection[Form]:
    """The forms in which every answer can be read: an answer 2 is an index where another row's is 0, and a text where
    another's is 24. All forms if no one fits all rows."""
    common = set(FORMS)
    for raw in raws:
        with suppress(RowError):  # said when the row is read
            fields = _fields(raw)
            answer = _first(raw, fields, ANSWER)
            choices, _ = _choices(raw, fields, answer)
            if choices and not own_choices.is_whole(answer) and str(answer) not in choices.labels:
                common &= own_choices.meanings(answer, choices).keys() or common
    return common or FORMS


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


def from_source(raw: Row, *, forms: Collection[Form] = FORMS) -> dict[str, Any]:
    """A row with the fields "question", "answer" and, if there are any, "choices" and "subject"; others stay."""
    fields = _fields(raw)
    question, answer = (_first(raw, fields, names) for names in (QUESTION, ANSWER))
    if question is None:
        raise RowError(f"none of {', '.join(QUESTION)} is there to ask: {_there(raw)}")
    if answer is None:
        raise RowError(f"the answer is missing where text or a number belongs, in any of {_or(ANSWER)}: {_there(raw)}")
    choices, letters = _choices(raw, fields, answer)
    taken = {*NOTES, "cells", *(fields[name] for name in (*QUESTION, *ANSWER) if name in fields)}
    if choices is None:
        return _others(raw, taken) | {"question": question, "answer": as_text(answer)}
    taken |= {*letters, *(fields[name] for name in CHOICES if name in fields)}
    subject = _first(raw, fields, SUBJECT)
    named = {"subject": str(subject)} if subject else {}
    gold = own_choices.letter(answer, choices, forms)
    return _others(raw, taken) | {"question": question, "choices": choices.texts, "answer": gold} | named


def _plain(name: str) -> str:
    """A field's name as the lists above spell it: "Correct Answer" is correct_answer."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _fields(raw: Row) -> dict[str, str]:
    """The fields that hold something, by their plain names; of two that are alike the one that is spelt plainly."""
    names = sorted((name for name, value in raw.items() if value is not None), key=lambda name: name != _plain(name))
    return {_plain(name): name for name in reversed(names)}


def _first(raw: Row, fields: dict[str, str], names: tuple[str, ...]) -> Any:
    return next((raw[fields[name]] for name in names if name in fields), None)


def _others(raw: Row, taken: set[str]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name not in taken}


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _there(raw: Row) -> str:
    """What a row has instead of what it lacks."""
    if "cells" in raw:
        return "the first line of the table names no columns"
    return f"the fields are {', '.join(repr(name)[:40] for name in raw if name not in NOTES) or 'none'}"


def _choices(raw: Row, fields: dict[str, str], answer: Any) -> tuple[Choices | None, list[str]]:
    """The choices, and the names of the fields they came from where each has one of its own (A, B, C, D)."""
    name = next((fields[name] for name in CHOICES if name in fields), None)
    found = None if name is None else own_choices.read(raw[name], name)
    if found is not None:
        return found, []
    for names in _series(raw, answer):
        while names and raw[names[-1]] is None:
            names.pop()
        if len(names) > 1:
            labels = [name.strip()[-1] for name in names] if names[0].strip()[-1].isdigit() else []
            return own_choices.of_list([raw[name] for name in names])._replace(labels=labels), names
    return None, []


def _series(raw: Row, answer: Any) -> Iterator[list[str]]:
    """Fields that follow each other as choices do. Small letters alone are names of many things: of choices where the
    answer is one of them."""
    small, plain = rows.LETTERS.lower(), {_plain(name): name for name in raw}
    yield list(takewhile(raw.__contains__, rows.LETTERS))
    bare = list(takewhile(plain.__contains__, small))
    if str(answer).strip().lower() in bare:
        yield [plain[name] for name in bare]
    for stem in STEMS:
        for ends in (small, "123456789"):
            yield [plain[name] for name in takewhile(plain.__contains__, (stem + end for end in ends))]
