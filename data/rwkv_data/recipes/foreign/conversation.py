"""A conversation as the rows of others hold it: a list of messages of either spelling, or a text of RWKV's chat."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rwkv_data.definition.errors import RowError
from rwkv_data.recipes.files.training_row import Role, Turn

ROLES: Final[dict[str, Role]] = {"user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant"}
SYSTEM: Final = "system"
_TAG: Final = re.compile(r"(?:\A|\n\n)(System|User|Assistant):")


class Conversation(NamedTuple):
    """The system text, empty if there is none, and the turns."""

    system: str
    turns: tuple[Turn, ...]


def of_messages(messages: Any) -> Conversation:
    """Return a list of `{"role", "content"}` or of `{"from", "value"}`. Raises RowError."""
    if not isinstance(messages, list) or not messages:
        raise RowError("there is no list of messages")
    said = [_said(message) for message in messages]
    system = said[0][1] if said[0][0] == SYSTEM else ""
    return Conversation(system, _turns(said[1:] if said[0][0] == SYSTEM else said))


def of_text(text: Any) -> Conversation:
    r"""Return a text `System: ...\n\nUser: ...\n\nAssistant: ...`; the system text may be missing. A tag begins a turn
    only at the beginning and after a blank line. Raises RowError."""
    if not isinstance(text, str) or not _TAG.match(text):
        raise RowError('the text is no chat ("User: ...", a blank line, "Assistant: ...")')
    pieces = _TAG.split(text.replace("\r\n", "\n"))[1:]
    said = [(tag.lower(), turn.strip()) for tag, turn in zip(pieces[::2], pieces[1::2], strict=True)]
    system = said[0][1] if said[0][0] == SYSTEM else ""
    return Conversation(system, _turns(said[1:] if said[0][0] == SYSTEM else said))


def of_prompt(prompt: Any) -> Conversation:
    """Return what comes before an answer: a list of messages, or what the user says. Raises RowError."""
    return Conversation("", (Turn("user", prompt),)) if isinstance(prompt, str) else of_messages(prompt)


def answer(value: Any) -> str:
    """Return an answer: a text, a message of the assistant, or a list of that one. Raises RowError."""
    if isinstance(value, str):
        return value
    messages = value if isinstance(value, list) else [value]
    if len(messages) != 1:
        raise RowError("an answer is no single message")
    role, text = _said(messages[0])
    if ROLES.get(role) != "assistant":
        raise RowError("an answer is not the assistant's")
    return text


def _turns(said: Sequence[tuple[str, str]]) -> tuple[Turn, ...]:
    if any(role == SYSTEM for role, _ in said):
        raise RowError("a system text stands behind the first turn")
    if any(role not in ROLES for role, _ in said):
        raise RowError("a message is neither of system, nor user, nor assistant")
    return tuple(Turn(ROLES[role], text) for role, text in said)


def _said(message: Any) -> tuple[str, str]:
    """Who says it, in small letters, and what. Some rows have both spellings, with one of them null."""
    if not isinstance(message, dict):
        raise RowError("a message is no object with a role and a content")
    if message.get("tool_calls") or message.get("function_call"):
        raise RowError("a message calls a tool")
    role, content = message.get("role") or message.get("from"), message.get("content")
    return str(role).lower(), _text(message.get("value") if content is None else content)


def _text(content: Any) -> str:
    """The text of a message, which may be a list of parts, all of them text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if not texts or len(texts) != len(parts):
        raise RowError("a message holds something other than text")
    return "\n".join(texts)
