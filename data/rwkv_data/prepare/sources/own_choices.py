"""The choices of a row of one's own: in which forms they come, and which of them the answer means."""

import json
import re
from collections.abc import Collection, Sequence
from math import isfinite
from typing import Any, Final, Literal, NamedTuple

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError

LABEL: Final = re.compile(r"\s*(?:\(([A-Za-z])\)|([A-Za-z])[).:])\s*")
"""`A)`, `A.`, `A:` or `(A)` before a choice."""
Form = Literal["letter", "index", "text"]
FORMS: Final[tuple[Form, ...]] = ("letter", "index", "text")
ALONE: Final = re.compile(r"\(?([A-Za-z])[).:]?")


class Choices(NamedTuple):
    """The texts of the choices, as they were `given` (which may say their letters, too), and `labels` by which an
    answer may call them; without any the letters do."""

    texts: list[str]
    given: list[str]
    labels: list[str]


def read(value: Any, name: str) -> Choices | None:
    """The choices in a field: a list, a table of label and text, or one text in which each has its letter. None if it
    is empty. Raises RowError."""
    if isinstance(value, str):
        return of_list(_of_text(value, name)) if value.strip() else None
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        labels = [as_text(label) for label in value.get("label") or ()]
        if labels and len(labels) != len(value["text"]):
            raise RowError(f"{name!r} has {len(value['text'])} texts and {len(labels)} labels")
        return of_list(value["text"])._replace(labels=labels)
    if isinstance(value, dict):
        return of_list(list(value.values()))._replace(labels=[str(label) for label in value])
    if isinstance(value, list):
        return of_list(value)
    raise RowError(f"{name!r} is {rows.shown(value)}, not a list of choices")


def of_list(values: Sequence[Any]) -> Choices:
    """Choices of a list, without the letters before them where all have theirs. Raises RowError."""
    given = [as_text(value) for value in values]
    found = [LABEL.match(text) for text in given]
    letters = [(match[1] or match[2]).upper() for match in found if match]
    texts = [text[match.end() :] for text, match in zip(given, found, strict=True) if match]
    expected = list(rows.LETTERS[: len(given)])
    if len(given) < 2 or sorted(letters) != expected or not all(texts):
        return Choices(given, given, [])
    if letters != expected:
        raise RowError(f"the choices are labelled {', '.join(letters)}: not in order")
    return Choices(texts, given, [])


def _of_text(text: str, name: str) -> list[Any]:
    """The choices of one text: JSON, or `A) … B) …`."""
    text = text.strip()
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            return found
    pieces = _labelled(text)
    if not pieces:
        raise RowError(f"{name!r} is one text, {rows.shown(text)}, and not 'A) … B) …' in order; give a list of texts")
    return pieces


def _labelled(text: str) -> list[str]:
    """The pieces of a text that begins with a label and has all that follow, each once and in order; else none."""
    first = LABEL.match(text)
    if not first:
        return []
    letter = first[1] or first[2]
    opening, _, closing = first[0].strip().partition(letter)
    every = "A-Z" if letter.isupper() else "a-z"
    found = list(re.finditer(rf"(?:^|(?<=[\s,;|])){re.escape(opening)}([{every}]){re.escape(closing)}", text))
    if "".join(match[1] for match in found).upper() != rows.LETTERS[: len(found)]:
        return []
    ends = [*(match.start() for match in found[1:]), len(text)]
    return [text[match.start() : end].strip(" \t\r\n,;|") for match, end in zip(found, ends, strict=True)]


def letter(answer: Any, choices: Choices, forms: Collection[Form] = FORMS) -> str:
    """The letter of the right choice. A whole number is its index from 0, always; else the answer is its label, or in
    one of the forms, and must mean one choice only. Raises RowError."""
    count, text = len(choices.texts), as_text(answer).strip()
    if is_whole(answer):
        meant = {int(answer)} & set(range(count))
    elif choices.labels.count(text) == 1:
        meant = {choices.labels.index(text)}
    else:
        meant = {place for form, place in meanings(answer, choices).items() if form in forms}
    if len(meant) == 1:
        return rows.LETTERS[meant.pop()]
    if not meant:
        raise RowError(f"the answer {text[:40]!r} is no letter, index or text of one of the {count} choices")
    named = " or ".join(rows.LETTERS[place] for place in sorted(meant))
    raise RowError(f"the answer {text!r} can mean {named}: as a letter, an index or a text; give indexes as numbers")


def is_whole(answer: Any) -> bool:
    """Whether an answer is a whole number, not a text of one."""
    return not isinstance(answer, bool) and (
        isinstance(answer, int) or (isinstance(answer, float) and answer.is_integer())
    )


def meanings(answer: Any, choices: Choices) -> dict[Form, int]:
    """Which choice a text means in each form in which it means one. A text that choices share means none."""
    text, count = as_text(answer).strip(), len(choices.texts)
    found: dict[Form, int] = {}
    alone = ALONE.fullmatch(text)
    if alone and alone[1].upper() in rows.LETTERS[:count]:
        found["letter"] = rows.LETTERS.index(alone[1].upper())
    same = [place for place in range(count) if text in {choices.texts[place].strip(), choices.given[place].strip()}]
    if len(same) == 1:
        found["text"] = same[0]
    if text.isdecimal() and text.isascii() and len(text) < 3 and int(text) < count and not (choices.labels and found):
        found["index"] = int(text)
    return found


def as_text(value: Any) -> str:
    """Text, or a number as text: 27.0 is 27."""
    if isinstance(value, float) and isfinite(value):
        value = int(value) if value.is_integer() else repr(value)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise RowError(f"{rows.shown(value)} where text or a number belongs")
