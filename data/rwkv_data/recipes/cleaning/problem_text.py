"""Which text of a training row is its problem.

Found by the first row and then the same in all: turns of a person (`conversations`, `messages`, or `prompt` as a list
of messages), a field of one of the names that rows of one's own may have, Alpaca's `instruction` with `input`, or the
`text` of a chat in RWKV's form. A row that has several of these, or none, is refused with the names of its fields, and
`--field` decides. Choices in a field of their own stand beside the problem: thousands of rows ask "Which of these is
right?", and are no duplicates.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from rwkv_data.definition.errors import RowError, SettingError
from rwkv_data.definition.rows import shown
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.sources import own_choices
from rwkv_data.prepare.sources.own_rows import CHOICES, QUESTION
from rwkv_data.prepare.sources.raw import NOTES

LONGEST: Final = 1 << 20
"""Most characters of a problem: beside it lie eight bytes for each while it is compared."""
TURNS: Final = ("conversations", "messages")
HUMAN: Final = frozenset({"user", "human"})
ALPACA: Final = ("instruction", "input")
_CHAT: Final = re.compile(r"(?:\A|\n\n)User:(.*?)(?=\n\n(?:User|Assistant|System):|\Z)", re.DOTALL)


class Problem(NamedTuple):
    """The text of a problem, and that of its choices, empty if it has none."""

    text: str
    choices: str = ""


ProblemOf = Callable[[Row], Problem]


def with_passages(texts: Sequence[str]) -> Problem:
    """Return a problem from its texts, the others beside the first, as `row_text.passages` gives those of a row."""
    text, *beside = texts or ("",)
    return Problem(text, " ".join(filter(None, beside)))


def problem_of(first: Row, fields: Sequence[str] = ()) -> ProblemOf:
    """Return the function that gives the problem of a row like the first one; it raises RowError for a row that has
    none. `fields` names where it is: several are read one after the other. Raises SettingError if it is not clear."""
    chosen = tuple(fields) or _known(first)
    return lambda row: Problem(_whole(row, chosen), "" if fields else _choices(row))


def _known(row: Row) -> tuple[str, ...]:
    there = [name for name in row if name not in NOTES and row[name] is not None]
    found = [name for name in there if name.lower() in TURNS and isinstance(row[name], list)]
    found = found or [name for name in there if name.lower() in QUESTION and isinstance(row[name], str | list)]
    if "instruction" in found and set(found) <= set(ALPACA):  # `input` is empty, null or missing in many rows
        return ALPACA
    if len(found) == 1:
        return tuple(found)
    names = ", ".join(repr(name)[:40] for name in there) or "none"
    why = f"each of {' and '.join(map(repr, found))} could be it" if found else "no name among them is known for it"
    raise SettingError(f"the row does not say which field is the problem: its fields are {names}, and {why}; "
                       "name it with --field")  # fmt: skip


def _whole(row: Row, fields: tuple[str, ...]) -> str:
    there = fields[:1] if fields == ALPACA and row.get("input") is None else fields
    text = "\n".join(_text(row, name) for name in there)
    if len(text) > LONGEST:
        raise RowError(f"the problem has {len(text):,} characters, and no problem has more than {LONGEST:,}")
    return text


def _choices(row: Row) -> str:
    """The choices of a row one after the other; empty if it has none that can be read."""
    found = next((row[name] for name in CHOICES if row.get(name)), None)
    with suppress(RowError):
        choices = None if found is None else own_choices.read(found, "choices")
        return " ".join(choices.texts)[:LONGEST] if choices else ""
    return ""


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if isinstance(value, str):
        return _human_part(value) if name.lower() == "text" else value
    if isinstance(value, list) and value:
        return "\n".join(_turns(value, name))
    raise RowError(f"{name!r} is {shown(value)}, not text or a list of messages")


def _human_part(text: str) -> str:
    """What a person says in `User: ...\\n\\nAssistant: ...`, also after `System: ...`; another text as it is."""
    is_chat = text.startswith(("User:", "System:")) and _CHAT.search(text)
    return "\n".join(said.strip() for said in _CHAT.findall(text)) if is_chat else text


def _turns(messages: Iterable[Any], name: str) -> list[str]:
    """The texts of a list, or what people say in a list of messages, of whichever spelling."""
    said: list[str] = []
    for message in messages:
        if isinstance(message, str):
            said.append(message)
        elif not isinstance(message, dict):
            raise RowError(f"{name!r} holds {shown(message)}, not a message")
        elif str(message.get("role", message.get("from"))).lower() in HUMAN:
            said.append(_content(message.get("content", message.get("value")), name))
    if not said:
        raise RowError(f"{name!r} has no turn of {' or '.join(sorted(HUMAN))}")
    return said


def _content(content: Any, name: str) -> str:
    """The text of a message, which may be a list of parts, of which those with text count."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if not texts:
        raise RowError(f"{name!r} holds a message without text")
    return "\n".join(texts)
