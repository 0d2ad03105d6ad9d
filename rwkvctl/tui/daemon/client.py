"""The console's way to the daemon: HTTP/1.1 over its socket, typed messages in and out.

On asyncio's streams, one connection a request.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from rwkvctl.cli.client import NOT_HTTP, headers, refusal, segment, spell, target
from rwkvctl.cli.long_reads import AGAIN_S, PATIENCE_S
from rwkvctl.cli.remote import Remote
from rwkvctl.http.peer_credentials import connect
from rwkvctl.http.response import READ_BYTES, NotHttpError, ResponseReader, request_bytes
from rwkvctl.protocol.errors import RwkvctlError, UnreachableError, VersionSkewError
from rwkvctl.protocol.events import Event, LogChunk, event_decoder, log_decoder
from rwkvctl.protocol.replies import CompareReply, Reply
from rwkvctl.protocol.requests import CompareRequest, EventsRequest, LogsRequest
from rwkvctl.protocol.routes import PROTOCOL, ROUTES, reply_decoder

ReplyT = TypeVar("ReplyT", bound=Reply)
LineT = TypeVar("LineT")
ASK_S: Final = 15.0
SILENCE_S: Final = 45.0
STOP_S: Final = 120.0
LOOK_S: Final = 0.2
"""How often a waiting console looks whether the daemon's socket is a new one."""

FAILURES: Final = (OSError, TimeoutError, ValueError)
"""What a connection raises that cannot be made, breaks, or is silent."""


class Link:
    """Asks the daemon, and reads its streams. Every failure is a RwkvctlError with a sentence for the operator."""

    def __init__(self, socket: Path | Remote) -> None:
        self.remote = socket if isinstance(socket, Remote) else None
        self.socket: Path | str = socket if isinstance(socket, Path) else f"{socket.host}:{socket.port}"
        self._again = asyncio.Event()

    async def ask(self, request: msgspec.Struct, expected: type[ReplyT], timeout_s: float = ASK_S) -> ReplyT:
        """Send a request and return its reply. Raises RwkvctlError if there is none, or another one."""
        async with self._answered(request, timeout_s) as answer:
            content = b"".join([piece async for piece in answer.body()])
        try:
            reply = reply_decoder.decode(content)
        except msgspec.DecodeError as error:
            raise VersionSkewError(f"The daemon's reply cannot be read by this console: {error}.") from error
        if not isinstance(reply, expected):
            raise VersionSkewError(f"The daemon answered with {type(reply).__name__}, not {expected.__name__}.")
        return reply

    async def compared(
        self, request: CompareRequest, told: Callable[[CompareReply], None] = lambda _: None
    ) -> CompareReply:
        """A whole comparison; `told` hears how far it is. Raises RwkvctlError."""
        while True:
            reply = await self.ask(msgspec.structs.replace(request, partial=True), CompareReply, PATIENCE_S)
            if not reply.looking:
                return reply
            told(reply)
            await asyncio.sleep(AGAIN_S)

    async def events(self, request: EventsRequest) -> AsyncIterator[Event]:
        """Events as they come, until the connection ends; or a page of the past."""
        async for event in self._stream(request, event_decoder):
            yield event

    async def log(self, request: LogsRequest) -> AsyncIterator[LogChunk]:
        """Yield pieces of a log as they arrive."""
        async for chunk in self._stream(request, log_decoder):
            yield chunk

    def try_again(self) -> None:
        """End the wait before the next attempt to connect."""
        self._again.set()

    async def pause(self, longest_s: float) -> None:
        """Wait before the next attempt: less if the operator says so, or if another daemon has opened the socket."""
        before, waited_s = self._identity(), 0.0
        self._again.clear()
        while waited_s < longest_s and not self._again.is_set() and self._identity() in {before, None}:
            await asyncio.sleep(min(LOOK_S, longest_s - waited_s))
            waited_s += LOOK_S

    def _identity(self) -> tuple[int, int] | None:
        """What tells one socket file from the next; None where there is none."""
        if self.remote is not None:
            return None
        try:
            found = Path(self.socket).stat()
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def _stream(self, request: msgspec.Struct, decoder: "msgspec.json.Decoder[LineT]") -> AsyncIterator[LineT]:
        """The lines of an answer, each as the message that it is."""
        async with self._answered(request, SILENCE_S) as answer:
            rest = b""
            async for piece in answer.body():
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    try:
                        found = decoder.decode(line)
                    except msgspec.DecodeError as error:
                        text = f"The daemon's stream cannot be read by this console: {error}."
                        raise VersionSkewError(text) from error
                    yield found

    @asynccontextmanager
    async def _answered(self, request: msgspec.Struct, timeout_s: float) -> AsyncIterator["HttpExchange"]:
        """A request sent and its head read; the connection is closed in the end."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await self._connect()
            answer = HttpExchange(reader, writer, timeout_s)
            try:
                await answer.send(built(request, self.remote.token.reveal() if self.remote else ""))
                await self._check(answer)
                yield answer
            finally:
                writer.close()
        except FAILURES as error:
            raise self._gone(error) from error

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.remote is None:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                link.setblocking(False)  # where there is no place, asyncio would take it for connected
                connect(link, str(self.socket))
                return await asyncio.open_unix_connection(sock=link)
            except BaseException:
                link.close()
                raise
        remote = self.remote
        return await asyncio.open_connection(remote.host, remote.port, ssl=remote.context, server_hostname=remote.host)

    async def _check(self, answer: "HttpExchange") -> None:
        status, headers = answer.response.status, answer.response.headers
        if status >= 400 and "rwkvctl-protocol" not in headers:
            raise UnreachableError(f"the daemon on {self.socket} is too busy for this request ({status})")
        spoken = headers.get("rwkvctl-protocol", "")
        if spoken != str(PROTOCOL):
            raise VersionSkewError(f"The daemon speaks protocol {spoken or 'none'}, this console {PROTOCOL}.")
        if status >= 400:
            raise refusal(b"".join([piece async for piece in answer.body()]))

    def _gone(self, error: Exception) -> RwkvctlError:
        if isinstance(error, TimeoutError):
            return UnreachableError(f"the daemon on {self.socket} does not reply")
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            return UnreachableError(f"no daemon answers on {self.socket}; start one with `rwkvctl daemon`")
        return UnreachableError(f"the connection to {self.socket} broke ({str(error) or type(error).__name__})")


class HttpExchange:
    """One exchange. Silence for longer than `timeout_s` ends it with TimeoutError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_s: float) -> None:
        self.reader, self.writer, self.timeout_s = reader, writer, timeout_s
        self.response, self._first = ResponseReader(), b""

    async def send(self, request: bytes) -> None:
        """Send a request and read the head of the reply."""
        self.writer.write(request)
        try:
            while self.response.in_head:
                self._first = await self._more()
        except NotHttpError:
            raise VersionSkewError(NOT_HTTP) from None

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces as they arrive."""
        yield self._first
        while not self.response.ended:
            yield await self._more()

    async def _more(self) -> bytes:
        async with asyncio.timeout(self.timeout_s):
            return self.response.receive(await self.reader.read(READ_BYTES))


def built(request: msgspec.Struct, token: str = "") -> bytes:
    """Return the bytes of a request; `token` is for a remote daemon."""
    method, route = ROUTES[type(request)]
    fields: dict[str, Any] = msgspec.to_builtins(request)
    for name in list(fields):
        if f"{{{name}}}" in route:
            route = route.replace(f"{{{name}}}", segment(str(fields.pop(name))))
    if method == "GET":
        where = target(route, {name: spell(value) for name, value in fields.items()})
        return request_bytes(method, where, headers(token))
    return request_bytes(method, route, headers(token), msgspec.json.encode(fields))
