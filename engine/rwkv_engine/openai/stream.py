"""Server-sent events: one JSON value each, and a last one that says so."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from rwkv_engine.openai.refusals import Refusal
from rwkvctl.http.server import Response

SSE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


def event(value: Any) -> bytes:
    """JSON has no line break outside its strings, and none in them that is not escaped: one line is one event."""
    return b"data: " + _encode(value) + b"\n\n"


def streamed(values: AsyncIterator[Any]) -> Response:
    """A response of events; an error ends it as an event of its own."""
    return Response(body=events(values), content_type=SSE, headers={"cache-control": "no-cache"})


async def events(values: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The events of a stream, its end among them."""
    try:
        async for value in values:
            yield event(value)
    except Refusal as refusal:
        yield b"data: " + refusal.body + b"\n\n"
    yield DONE
