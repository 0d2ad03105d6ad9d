"""A chat completion as it is received. Nothing in it is trusted: shapes, sizes and numbers are checked."""

import json
import re
from dataclasses import dataclass
from typing import Any

LONGEST_TEXT = 200_000
MOST_TOKENS = 10_000_000
CHARS_PER_TOKEN = 3.0
"""For estimates only: English has about four, mathematics and Chinese fewer."""

_TAKEN_OUT = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)])
_TERMINAL = re.compile(r"\x1b\[[0-9;?]{0,30}[@-~]")


class BadReplyError(Exception):
    """A response is no chat completion. The message says what is wrong with it, never what is in it."""


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
class ChatReply:
    """A judge's reply. `model` is the model that the server names; `cut`: it ran into its length limit; `endpoint` is
    the one that gave it."""

    text: str
    model: str = ""
    cut: bool = False
    usage: TokenUsage = NOTHING
    latency_s: float = 0.0
    endpoint: str = ""


def reply_of(body: bytes, prompt_chars: int) -> ChatReply:
    """Return a response's body as a reply, still without its cost. Raises BadReplyError."""
    document = _object(body)
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise BadReplyError("the response is no chat completion: it has no message")
    text = tidy(_content(message.get("content")))
    return ChatReply(
        text=text,
        model=tidy(document["model"])[:200] if isinstance(document.get("model"), str) else "",
        cut=choice.get("finish_reason") == "length",
        usage=_usage(document.get("usage"), prompt_chars, len(text)),
    )


def error_text(body: bytes) -> tuple[str, str]:
    """Return (code, message) of an error's body, short and printable; the code is empty if none is given."""
    try:
        document = _object(body[:LONGEST_TEXT])
    except BadReplyError:
        return "", tidy(body[:500].decode(errors="replace")).strip()[:300]
    error = document.get("error", document)
    if isinstance(error, str):
        return "", tidy(error)[:300]
    fields = error if isinstance(error, dict) else {}
    code, kind, message = (fields.get(name) for name in ("code", "type", "message"))
    said = " ".join(text for text in (code, kind) if isinstance(text, str))
    return tidy(said)[:100], tidy(message)[:300] if isinstance(message, str) else ""


def tidy(text: str) -> str:
    """Return text that can be stored, shown and sent: without terminal sequences, lone surrogates, and control
    characters but tab and line feed."""
    return _TERMINAL.sub("", text[:LONGEST_TEXT]).translate(_TAKEN_OUT)


def estimated_tokens(chars: int) -> int:
    """Return an estimate of the tokens of so many characters, rather too many than too few."""
    return int(chars / CHARS_PER_TOKEN) + 8


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadReplyError(f"the response is no JSON ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise BadReplyError("the response is no JSON object")
    return document


def _content(content: object) -> str:
    """Return the text, or the text parts of a list of parts. An empty answer is accepted here; the rule finds it
    unreadable."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content[:100] if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


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
