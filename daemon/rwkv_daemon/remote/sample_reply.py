"""A server's completion as a finished sample. The text is kept whole, as a grader will see it; only what no file can
hold is replaced."""

import re
from collections.abc import Iterable
from typing import Any, Final

from rwkv_daemon.remote.server_reply import (
    BadReplyError,
    ServerReply,
    UnfitReplyError,
    content_text,
    first_choice,
    json_object,
    message_of,
    reply_of,
)
from rwkvctl.protocol.engine import Generated, StopKind, Usage

THOUGHT_FIELDS: Final = ("reasoning_content", "reasoning")
BROKEN_OFF: Final = frozenset({"abort", "error"})
"""Reasons to finish of a server that gave up in the middle."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def read_sample(body: bytes, *, chat: bool, prompt_chars: int) -> ServerReply:
    """Return a completion as a reply, a thought that is returned separately in front. Raises BadReplyError."""
    document = json_object(body)
    choice = first_choice(document)
    reason = choice.get("finish_reason")
    if reason in BROKEN_OFF if isinstance(reason, str) else False:
        raise BadReplyError("the server broke off the reply")
    if reason == "content_filter":
        raise UnfitReplyError("the server's content filter cut the reply")
    text = chat_text(message_of(choice), cut=reason == "length") if chat else completed_text(choice)
    return reply_of(document, choice, storable(text), prompt_chars)


def completed_text(choice: dict[str, Any]) -> str:
    """Return the text of a choice of /completions. Raises BadReplyError."""
    text = choice.get("text")
    if not isinstance(text, str):
        raise BadReplyError("the response is no completion: it has no text")
    return text


def chat_text(message: dict[str, Any], *, cut: bool) -> str:
    """Return the thought, between tags, and the answer. A thought that was cut off is not closed: no answer follows."""
    content = content_text(message.get("content"))
    thought = next((text for name in THOUGHT_FIELDS if (text := content_text(message.get(name)))), "")
    if not thought:
        return content
    return f"<think>{thought}" if cut and not content else f"<think>{thought}</think>{content}"


def storable(text: str) -> str:
    """Return a text without lone surrogates, which no file or store takes."""
    return _SURROGATES.sub("\ufffd", text)


def until_stop(text: str, stops: Iterable[str]) -> str:
    """Return the text before the first stop string; the whole text if there is none."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


def finished(item: str, index: int, reply: ServerReply, stops: Iterable[str]) -> Generated:
    """Return a reply as a finished sample. A server that ignores stop strings is cut here, as others are there."""
    text = until_stop(reply.text, stops)
    stop: StopKind = "stop_suffix" if len(text) < len(reply.text) else "length" if reply.cut else "stop_token"
    usage = Usage(prompt=reply.usage.prompt_tokens, generated=reply.usage.completion_tokens)
    return Generated(id=item, index=index, text=text, stop=stop, usage=usage)
