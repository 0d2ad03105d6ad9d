"""Server-sent events: one JSON value each, then `[DONE]`."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from rwkv_engine.openai.refusals import Refusal
from rwkvctl.http.server import Response

SSE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


def event(value: Any) -> bytes:
    """Return a value as an event. JSON escapes line breaks in strings and has none outside them: it is one line."""
    return b"data: " + _encode(value) + b"\n\n"


def streamed(values: AsyncIterator[Any]) -> Response:
    """Return a response of events. A Refusal that is raised meanwhile becomes the last event."""
    return Response(body=events(values), content_type=SSE, headers={"cache-control": "no-cache"})


async def events(values: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yield the events of a stream, `[DONE]` among them."""
    try:
        async for value in values:
            yield event(value)
    except Refusal as refusal:
        yield b"data: " + refusal.body + b"\n\n"
    yield DONE
