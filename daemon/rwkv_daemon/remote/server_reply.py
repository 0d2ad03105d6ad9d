"""A completion as it is received. Nothing in it is trusted: shapes, sizes and numbers are checked."""

import json
import re
from dataclasses import dataclass
from typing import Any

CHAT, COMPLETIONS = "/chat/completions", "/completions"
LONGEST_TEXT = 200_000
MOST_TOKENS = 10_000_000
CHARS_PER_TOKEN = 3.0
"""For estimates only: English has about four, mathematics and Chinese fewer."""

_TAKEN_OUT = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)])
_TERMINAL = re.compile(r"\x1b\[[0-9;?]{0,30}[@-~]")


class BadReplyError(Exception):
    """A response is no completion. The message says what is wrong with it, never what is in it."""


class UnfitReplyError(BadReplyError):
    """A response is a completion without what was asked for, which asking again will not bring."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one exchange or of many, and their cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )


NOTHING = TokenUsage()


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A model's reply. `model` is the model that the server names; `cut`: it ran into its length limit; `endpoint` is
    the one that gave it."""

    text: str
    model: str = ""
    cut: bool = False
    usage: TokenUsage = NOTHING
    latency_s: float = 0.0
    endpoint: str = ""


def chat_reply(body: bytes, prompt_chars: int) -> ServerReply:
    """Return the body of a chat completion as a reply whose text is safe to show, still without its cost. Raises
    BadReplyError."""
    document = json_object(body)
    choice = first_choice(document)
    text = tidy(content_text(message_of(choice).get("content")))
    return reply_of(document, choice, text, prompt_chars)


def first_choice(document: dict[str, Any]) -> dict[str, Any]:
    """Return the first choice of a completion. Raises BadReplyError."""
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise BadReplyError("the response is no completion: it has no choice")
    return choice


def message_of(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a chat completion's choice. Raises BadReplyError."""
    message = choice.get("message")
    if not isinstance(message, dict):
        raise BadReplyError("the response is no chat completion: it has no message")
    return message


def reply_of(document: dict[str, Any], choice: dict[str, Any], text: str, prompt_chars: int) -> ServerReply:
    """Return a reply with this text, and what the document says beside it."""
    return ServerReply(
        text=text,
        model=tidy(document["model"])[:200] if isinstance(document.get("model"), str) else "",
        cut=choice.get("finish_reason") == "length",
        usage=_usage(document.get("usage"), prompt_chars, len(text)),
    )


def error_text(body: bytes) -> tuple[str, str]:
    """Return (code, message) of an error's body, short and printable; the code is empty if none is given."""
    try:
        document = json_object(body[:LONGEST_TEXT])
    except BadReplyError:
        return "", tidy(body[:500].decode(errors="replace")).strip()[:300]
    error = document.get("error", document)
    if isinstance(error, str):
        return "", tidy(error)[:300]
    fields = error if isinstance(error, dict) else {}
    code, kind, message = fields.get("code"), fields.get("type"), fields.get("message") or fields.get("detail")
    said = " ".join(text for text in (code, kind) if isinstance(text, str))
    if isinstance(message, list | dict):  # FastAPI's lists of what is wrong with which field
        message = json.dumps(message)
    return tidy(said)[:100], tidy(message)[:300] if isinstance(message, str) else ""


def tidy(text: str) -> str:
    """Return text that can be stored, shown and sent: without terminal sequences, lone surrogates, and control
    characters but tab and line feed."""
    return _TERMINAL.sub("", text[:LONGEST_TEXT]).translate(_TAKEN_OUT)


def estimated_tokens(chars: int) -> int:
    """Return an estimate of the tokens of so many characters, rather too many than too few."""
    return int(chars / CHARS_PER_TOKEN) + 8


def json_object(body: bytes) -> dict[str, Any]:
    """Return a body as a JSON object. Raises BadReplyError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadReplyError(f"the response is no JSON ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise BadReplyError("the response is no JSON object")
    return document


def content_text(content: object) -> str:
    """Return the text, or the text parts of a list of parts. An empty answer is accepted here; a judge's
    rule finds it unreadable."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content[:100] if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def usage_in(body: bytes) -> TokenUsage:
    """Return what a response says that it used; nothing if it does not say so."""
    try:
        usage = json_object(body).get("usage")
    except BadReplyError:
        return NOTHING
    given = usage if isinstance(usage, dict) else {}
    return TokenUsage(_count(given.get("prompt_tokens")) or 0, _count(given.get("completion_tokens")) or 0)


def _usage(usage: object, prompt_chars: int, reply_chars: int) -> TokenUsage:
    """Return the token counts as given; estimates if they are missing or impossible."""
    given = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(given.get("prompt_tokens")), _count(given.get("completion_tokens"))
    return TokenUsage(
        estimated_tokens(prompt_chars) if prompt is None else prompt,
        estimated_tokens(reply_chars) if completion is None else completion,
    )


def _count(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
    return value if fits and isinstance(value, int) else None
