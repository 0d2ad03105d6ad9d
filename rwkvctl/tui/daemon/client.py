"""The console's way to the daemon: HTTP/1.1 over its socket, typed messages in and out.

On asyncio's streams, one connection a request, with the command line's own few lines of HTTP: httpx would be two thirds
of the time until the console shows something, h11 a tenth.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from rwkvctl.cli.client import refusal, request_bytes, segment, spell, target
from rwkvctl.cli.long_reads import AGAIN_S, PATIENCE_S
from rwkvctl.cli.remote import Remote
from rwkvctl.http.peer_credentials import connect
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
READ_BYTES: Final = 64 * 1024
LOOK_S: Final = 0.2
"""How often a waiting console looks whether the daemon's socket is a new one."""

FAILURES: Final = (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""What a connection that breaks, is silent, or sends no HTTP raises."""


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
                await answer.send(*built(request), self.remote.token.reveal() if self.remote else "")
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
                return await asyncio.open_unix_connection(sock=link, limit=READ_BYTES)
            except BaseException:
                link.close()
                raise
        remote = self.remote
        return await asyncio.open_connection(
            remote.host, remote.port, ssl=remote.context, server_hostname=remote.host, limit=READ_BYTES
        )

    async def _check(self, answer: "HttpExchange") -> None:
        if answer.status >= 400 and "rwkvctl-protocol" not in answer.headers:
            raise UnreachableError(f"the daemon on {self.socket} is too busy for this request ({answer.status})")
        spoken = answer.headers.get("rwkvctl-protocol", "")
        if spoken != str(PROTOCOL):
            raise VersionSkewError(f"The daemon speaks protocol {spoken or 'none'}, this console {PROTOCOL}.")
        if answer.status >= 400:
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
        self.status, self.headers = 0, dict[str, str]()

    async def send(self, method: str, route: str, content: bytes, token: str) -> None:
        """Send a request and read the head of what comes back."""
        self.writer.write(request_bytes(method, route, content, token))
        async with asyncio.timeout(self.timeout_s):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        words = first.split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
            raise VersionSkewError("The process on the daemon's socket does not speak HTTP; use another --socket.")
        self.status = int(words[1])
        self.headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }

    async def body(self) -> AsyncIterator[bytes]:
        """The body in pieces, as they come: in chunks, of a length, or up to the end of the connection."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while length := int((await self._waited(self.reader.readline())).split(b";")[0], 16):
                yield (await self._waited(self.reader.readexactly(length + 2)))[:-2]
        elif "content-length" in self.headers:
            yield await self._waited(self.reader.readexactly(int(self.headers["content-length"])))
        else:
            while piece := await self._waited(self.reader.read(READ_BYTES)):
                yield piece

    async def _waited(self, reading: Coroutine[None, None, bytes]) -> bytes:
        async with asyncio.timeout(self.timeout_s):
            return await reading


def built(request: msgspec.Struct) -> tuple[str, str, bytes]:
    """Return method, target and body of a request."""
    method, route = ROUTES[type(request)]
    fields: dict[str, Any] = msgspec.to_builtins(request)
    for name in list(fields):
        if f"{{{name}}}" in route:
            route = route.replace(f"{{{name}}}", segment(str(fields.pop(name))))
    if method == "GET":
        return method, target(route, {name: spell(value) for name, value in fields.items()}), b""
    return method, route, msgspec.json.encode(fields)
