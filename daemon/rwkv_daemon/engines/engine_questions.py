"""Short requests to an engine from the daemon (health and stats), over its Unix socket, with a deadline."""

import asyncio
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from rwkvctl.http.response import READ_BYTES, NotHttpError, ResponseReader, request_bytes
from rwkvctl.protocol.engine import EngineHealth, EngineStats, GroupNow

T = TypeVar("T")
DEADLINE_S = 1.0


class NoAnswerError(Exception):
    """The engine did not answer in time, or not in HTTP. It may be loading, busy, or gone."""


async def health(socket: Path) -> EngineHealth:
    """Return the reply to `GET /v1/health`. Raises NoAnswerError if no valid one comes within `DEADLINE_S`."""
    return await ask(socket, "/v1/health", EngineHealth)


async def stats(socket: Path) -> EngineStats:
    """Return the reply to `GET /v1/stats`. Raises NoAnswerError if no valid one comes within `DEADLINE_S`."""
    return await ask(socket, "/v1/stats", EngineStats)


async def group_now(socket: Path, group: str, sample: str, index: int, step: int) -> GroupNow:
    """Return the reply to `GET /v1/groups/GROUP/now`. Raises NoAnswerError if no valid one comes within
    `DEADLINE_S`."""
    return await ask(socket, f"/v1/groups/{quote(group)}/now?id={quote(sample)}&index={index}&step={step}", GroupNow)


async def ask(socket: Path, target: str, answer: type[T]) -> T:
    """Send one GET request and return the JSON reply decoded as `answer`. Raises NoAnswerError if it fails, is not of
    that type, or takes longer than `DEADLINE_S`."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            body = await get(socket, target)
        return msgspec.json.decode(body, type=answer)
    except (OSError, TimeoutError, NotHttpError, msgspec.DecodeError) as error:
        raise NoAnswerError(f"{socket}: {type(error).__name__} {error}") from error


async def get(socket: Path, target: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        writer.write(request_bytes("GET", target, {"host": "engine"}))
        response, body = ResponseReader(), bytearray()
        while not response.ended:
            body += response.receive(await reader.read(READ_BYTES))
    finally:
        writer.close()
    if response.status != 200:
        raise OSError(f"status {response.status}")
    return bytes(body)
