"""The forms that rows of others have, found by the first row of a file and then the same in all.

messages, conversations           one answer, at the end
prompt, completion                one answer (TRL's prompt-completion)
instruction, input, output        one answer (Alpaca); the input may be empty
text                              one answer, at the end (RWKV's chat form)
chosen, rejected                  two answers to `conversations`, `messages`, `prompt` or `instruction`; or two
                                  conversations that differ in their last message alone
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from rwkv_data.definition.errors import RowError, SettingError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.sources.raw import NOTES
from rwkv_data.recipes.files.training_row import Turn
from rwkv_data.recipes.foreign.conversation import ROLES, Conversation, answer, of_messages, of_prompt, of_text


class Spoken(NamedTuple):
    """What is said in a row: a conversation that ends with the answer, or with the question of two answers."""

    conversation: Conversation
    chosen: str | None = None
    rejected: str | None = None


FormOf = Callable[[Row], Spoken]
MOST_NAMES: Final = 20
PAIR: Final = ("chosen", "rejected")
TEXT: Final = ("text",)


def form_of(first: Row) -> FormOf:
    """Return the function that reads rows like the first one; it raises RowError, with one of few sentences, for a row
    that has another form. Raises SettingError if it is not clear which form that is."""
    there = [name for name in first if name not in NOTES and first[name] is not None]
    pairs = set(PAIR) <= set(there)
    if pairs and _is_whole(first["chosen"]):
        return _whole_pair
    known = _QUESTIONS if pairs else _ANSWERED
    found = [fields for fields in known if set(fields) <= set(there)]
    if len(found) > 1:  # Alpaca repeats its row as a text; sets of preferences have a conversation beside the prompt
        found = [("prompt",)] if ("prompt",) in found else [fields for fields in found if fields != TEXT]
    if len(found) == 1:
        read = known[found[0]]
        return (lambda row: _pair(row, read)) if pairs else (lambda row: Spoken(_with_system(row, read(row))))
    names = ", ".join(repr(name)[:40] for name in there[:MOST_NAMES]) or "none"
    why = f"{' and '.join(map(_named, found))} could each be it" if found else _none_of(known)
    raise SettingError(f"the row does not say what its conversation is: its fields are {names}, and {why}")


def _named(fields: tuple[str, ...]) -> str:
    return " with ".join(map(repr, fields))


def _none_of(known: Mapping[tuple[str, ...], object]) -> str:
    return f"none of {', '.join(map(_named, known))} is among them"


def _with_system(row: Row, found: Conversation) -> Conversation:
    """A conversation with the text of a field `system`, as ShareGPT and Alpaca have it."""
    system = row.get("system")
    if not isinstance(system, str) or not system.strip():
        return found
    if found.system not in {"", system}:
        raise RowError("the row has two system texts")
    return found._replace(system=system)


def _pair(row: Row, question: Callable[[Row], Conversation]) -> Spoken:
    asked = _with_system(row, question(row))
    return Spoken(asked, *(answer(row.get(name)) for name in PAIR))


def _is_whole(chosen: Any) -> bool:
    """Whether an answer is a conversation from its beginning."""
    first = chosen[0] if isinstance(chosen, list) and chosen else None
    role = str(first.get("role") or first.get("from")).lower() if isinstance(first, dict) else ""
    return bool(role) and ROLES.get(role) != "assistant"


def _whole_pair(row: Row) -> Spoken:
    chosen, rejected = (_with_system(row, of_messages(row.get(name))) for name in PAIR)
    if (chosen.system, chosen.turns[:-1]) != (rejected.system, rejected.turns[:-1]):
        raise RowError("the chosen and the rejected conversation differ before their last message")
    last = [found.turns[-1] if found.turns else Turn("user", "") for found in (chosen, rejected)]
    if any(turn.role != "assistant" for turn in last):
        raise RowError("an answer is not the assistant's")
    return Spoken(chosen._replace(turns=chosen.turns[:-1]), last[0].text, last[1].text)


def _completed(row: Row) -> Conversation:
    asked = of_prompt(row.get("prompt"))
    return asked._replace(turns=(*asked.turns, Turn("assistant", answer(row.get("completion")))))


def _instruction(row: Row) -> Conversation:
    said = [row.get("instruction"), row.get("input") or ""]
    if not all(isinstance(text, str) for text in said):
        raise RowError("the instruction or its input is no text")
    if row.get("history"):
        raise RowError("there is a history before the instruction")
    return of_prompt("\n".join(filter(None, said)))


def _followed(row: Row) -> Conversation:
    asked = _instruction(row)
    return asked._replace(turns=(*asked.turns, Turn("assistant", answer(row.get("output")))))


_ANSWERED: Final[Mapping[tuple[str, ...], Callable[[Row], Conversation]]] = {
    ("messages",): lambda row: of_messages(row.get("messages")),
    ("conversations",): lambda row: of_messages(row.get("conversations")),
    ("prompt", "completion"): _completed,
    ("instruction", "output"): _followed,
    TEXT: lambda row: of_text(row.get("text")),
}
_QUESTIONS: Final[Mapping[tuple[str, ...], Callable[[Row], Conversation]]] = {
    ("messages",): lambda row: of_messages(row.get("messages")),
    ("conversations",): lambda row: of_messages(row.get("conversations")),
    ("prompt",): lambda row: of_prompt(row.get("prompt")),
    ("instruction",): _instruction,
}
