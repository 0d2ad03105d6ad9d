"""The console's way to the daemon: httpx over the Unix socket, typed messages in and out."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from rwkvctl.client import refusal, spell
from rwkvctl.protocol.errors import RwkvctlError, UnreachableError, VersionSkewError
from rwkvctl.protocol.messages import (
    PROTOCOL,
    ROUTES,
    Event,
    EventsRequest,
    LogChunk,
    LogsRequest,
    Reply,
    event_decoder,
    log_decoder,
    reply_decoder,
)

ReplyT = TypeVar("ReplyT", bound=Reply)
ASK_S: Final = 15.0
SILENCE_S: Final = 45.0
STOP_S: Final = 120.0


class Link:
    """Asks the daemon, and reads its streams. Every failure is a RwkvctlError with a sentence for the operator."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket)),
            base_url="http://rwkvctl",
            headers={"rwkvctl-protocol": str(PROTOCOL)},
            trust_env=False,
        )

    async def ask(self, request: msgspec.Struct, expected: type[ReplyT], timeout_s: float = ASK_S) -> ReplyT:
        """Send a request and return its reply. Raises RwkvctlError if there is none, or another one."""
        try:
            response = await self._http.send(self._build(request, timeout_s))
        except httpx.HTTPError as error:
            raise self._gone(error) from error
        self._check(response)
        if response.status_code >= 400:
            raise refusal(response.content)
        try:
            reply = reply_decoder.decode(response.content)
        except msgspec.DecodeError as error:
            raise VersionSkewError(f"The daemon's reply cannot be read by this console: {error}.") from error
        if not isinstance(reply, expected):
            raise VersionSkewError(f"The daemon answered with {type(reply).__name__}, not {expected.__name__}.")
        return reply

    async def events(self, since: int) -> AsyncIterator[Event]:
        """Events after a number, as they come, until the connection ends."""
        async for line in self._lines(EventsRequest(since=since)):
            yield event_decoder.decode(line)

    async def log(self, request: LogsRequest) -> AsyncIterator[LogChunk]:
        """Pieces of a log, as they come."""
        async for line in self._lines(request):
            yield log_decoder.decode(line)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _lines(self, request: msgspec.Struct) -> AsyncIterator[bytes]:
        try:
            response = await self._http.send(self._build(request, SILENCE_S), stream=True)
            try:
                self._check(response)
                if response.status_code >= 400:
                    raise refusal(await response.aread())
                rest = b""
                async for piece in response.aiter_bytes():
                    *whole, rest = (rest + piece).split(b"\n")
                    for line in whole:
                        yield line
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise self._gone(error) from error
        except msgspec.DecodeError as error:
            raise VersionSkewError(f"The daemon's stream cannot be read by this console: {error}.") from error

    def _build(self, request: msgspec.Struct, timeout_s: float) -> httpx.Request:
        method, route = ROUTES[type(request)]
        fields: dict[str, Any] = msgspec.to_builtins(request)
        for name in list(fields):
            if f"{{{name}}}" in route:
                route = route.replace(f"{{{name}}}", quote(str(fields.pop(name)), safe=""))
        timeout = httpx.Timeout(timeout_s)
        if method == "GET":
            query = {name: spell(value) for name, value in fields.items()}
            return self._http.build_request(method, route, params=query, timeout=timeout)
        return self._http.build_request(method, route, json=fields, timeout=timeout)

    def _check(self, response: httpx.Response) -> None:
        spoken = response.headers.get("rwkvctl-protocol", "")
        if spoken != str(PROTOCOL):
            raise VersionSkewError(f"The daemon speaks protocol {spoken or 'none'}, this console {PROTOCOL}.")

    def _gone(self, error: httpx.HTTPError) -> RwkvctlError:
        if isinstance(error, httpx.TimeoutException):
            return UnreachableError(f"the daemon on {self.socket} is silent")
        return UnreachableError(f"start one with `rwkvctl daemon`; none answers on {self.socket}")
