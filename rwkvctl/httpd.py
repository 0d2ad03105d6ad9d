"""A small HTTP/1.1 server on h11 and asyncio, shared by the daemon and the engine.

It gives what both need and frameworks hide: the peer's credentials for each connection, bounded headers and bodies,
back-pressure on answers, and notice of a client that hung up. One handler takes every request; routing is a table the
caller owns. Over TCP there are no credentials, so a server that may be reached there asks `bearer_is` in `admit`.
"""

import asyncio
import contextlib
import dataclasses
import functools
import hmac
import json
import logging
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

MAX_HEADER_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024  # what a client has DRAIN_TIMEOUT_S to take
DRAIN_TIMEOUT_S = 10.0
LINGER_S = 2.0
IDLE_TIMEOUT_S = 300.0
REQUEST_TIMEOUT_S = 30.0
JSON = "application/json"
NDJSON = "application/x-ndjson"

log = logging.getLogger("rwkvctl")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is on the other end of a Unix socket, as the kernel says (SO_PEERCRED)."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read whole. `gone` is set when the client closes the connection while it is being answered, and at
    the latest when the answer has ended."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer: Peer | None
    gone: asyncio.Event


@dataclass(frozen=True, slots=True)
class Response:
    """A status and a body: bytes, or an asynchronous stream of chunks sent as they come."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]
Admit = Callable[[Request], Response | None]


class UnwelcomeError(Exception):
    """A request that `admit` refused, with the answer it gets."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class TooLargeError(Exception):
    """The request's body is over the server's limit; answered with 413."""


class SocketInUseError(Exception):
    """Somebody answers on that socket path already."""


def bind_unix(path: Path) -> socket.socket:
    """A listening Unix socket at `path`, private to its owner from the first instant; a stale file is removed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """A listening TCP socket; port 0 takes a free one. Raises OSError for an address that is not ours or is taken."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address, family=family, backlog=1024)


def remove_stale(path: Path) -> None:
    """Remove a socket file that nobody answers on. Raises SocketInUseError if somebody does."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(BlockingIOError, TimeoutError):  # its backlog is full: somebody is there
                probe.connect(str(path))
            raise SocketInUseError(f"another process answers on {path}")
    path.unlink(missing_ok=True)


@dataclass(slots=True)
class Server:
    """Serves one handler. `at_once` caps how many requests are answered side by side; each socket has at most
    `max_connections`, four times as many unless told otherwise. `admit` sees a request before its body is read and may
    refuse it with an answer of its own."""

    handler: Handler
    max_body_bytes: int = 64 * 1024 * 1024
    at_once: int = 128
    max_connections: int = 0
    admit: Admit | None = None
    _crowds: list[set[asyncio.Task[None]]] = field(default_factory=list)
    gate: asyncio.Semaphore | None = None

    async def start(self, listener: socket.socket) -> asyncio.Server:
        """Accept clients on a bound socket, Unix or TCP, until the returned server is closed. May be called for
        several sockets."""
        if self.gate is None:
            self.gate = asyncio.Semaphore(self.at_once)
        self._crowds.append(set())
        accept = functools.partial(self._accept, self._crowds[-1])
        if listener.family == socket.AF_UNIX:
            return await asyncio.start_unix_server(accept, sock=listener, limit=READ_BYTES)
        return await asyncio.start_server(accept, sock=listener, limit=READ_BYTES)

    async def close(self) -> None:
        """Cancel the connections that are still open and wait for their handlers to end."""
        tasks = set[asyncio.Task[None]]().union(*self._crowds)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)

    async def _accept(
        self, crowd: set[asyncio.Task[None]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one client. `crowd` are those of the same socket: strangers over TCP leave the Unix socket its room."""
        task = asyncio.current_task()
        assert task is not None
        full = len(crowd) >= (self.max_connections or 4 * self.at_once)
        crowd.add(task)
        try:
            connection = _Connection(self, reader, writer)
            await (connection.turn_away() if full else connection.serve())
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        except Exception:  # its status has been sent: all that is left is to break it off
            log.exception("an answer broke off")
            writer.transport.abort()
        finally:
            crowd.discard(task)
            writer.close()


class _Connection:
    """One client: requests one after another on the same socket."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        sock = writer.get_extra_info("socket")
        self.peer = peer_of(sock)
        self.bare = False
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until the kernel has all of a piece
        if self.peer is None:  # or the kernel would tell of room only once megabytes are free
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, PIECE_BYTES)

    async def turn_away(self) -> None:
        """There are too many connections."""
        await self._send(refusal(503, "there are too many connections", self.peer), close=True)

    async def serve(self) -> None:
        while await self._has_begun():
            self.bare = False
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    request = await self._read_request()
            except TimeoutError:
                await self._refuse(refusal(408, "the request took too long to arrive", self.peer))
                return
            except (h11.RemoteProtocolError, ValueError) as error:
                status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
                await self._refuse(refusal(status, "that is not HTTP/1.1", self.peer))
                return
            except TooLargeError as error:
                await self._refuse(refusal(413, str(error), self.peer))
                return
            except UnwelcomeError as error:
                await self._refuse(error.response)
                return
            if request is None:
                return
            await self._answer(request)
            if self.h11.our_state is h11.MUST_CLOSE or self.h11.their_state is h11.MUST_CLOSE:
                return
            if self.h11.our_state is not h11.DONE or self.h11.their_state is not h11.DONE:
                return
            self.h11.start_next_cycle()

    async def _has_begun(self) -> bool:
        """Wait for the first byte of the next request; False if the client goes. One that is idle too long is cut."""
        data, closed = self.h11.trailing_data
        if not data and not closed:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                data = await self.reader.read(READ_BYTES)
            self.h11.receive_data(data)
        return bool(data)

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self.h11.next_event()
            if event is h11.NEED_DATA:
                if self.h11.they_are_waiting_for_100_continue:
                    self.writer.write(self.h11.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                self.h11.receive_data(await self.reader.read(READ_BYTES))
                continue
            return event  # type: ignore[return-value]

    async def _read_request(self) -> Request | None:
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        self.bare = head.method == b"HEAD"
        target = urlsplit(head.target.decode("ascii"))
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        request = Request(head.method.decode(), unquote(target.path), query, headers, b"", self.peer, asyncio.Event())
        if self.server.admit and (response := self.server.admit(request)):
            raise UnwelcomeError(response)
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > self.server.max_body_bytes:
                raise TooLargeError(f"the request is over {self.server.max_body_bytes} bytes")
        if not isinstance(event, h11.EndOfMessage):
            return None
        return dataclasses.replace(request, body=bytes(body))

    async def _answer(self, request: Request) -> None:
        """Run the handler while watching for the client to hang up."""
        watcher = asyncio.ensure_future(self._watch(request.gone))
        gate = self.server.gate
        assert gate is not None
        try:
            async with gate:
                await self._send(await self._handled(request))
        finally:
            request.gone.set()  # a stream that never began has no other way to hear of the end
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def _handled(self, request: Request) -> Response:
        """The handler's answer; a mistake of ours is logged, and answered without its particulars."""
        try:
            return await self.server.handler(request)
        except ConnectionError:  # whom the handler asks has hung up, and so does it
            raise
        except Exception:
            log.exception("%s %s cannot be answered", request.method, request.path)
            return mistake(self.peer)

    async def _watch(self, gone: asyncio.Event) -> None:
        """Set `gone` at end of file, or at a reset: a client that left answers unread. What a pipelining client sends
        ahead is kept for h11; one that sends more than READ_BYTES of it is cut off."""
        kept = len(self.h11.trailing_data[0])
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(READ_BYTES):
                kept += len(data)
                if kept > READ_BYTES:
                    self.writer.transport.abort()
                    break
                self.h11.receive_data(data)
            else:
                self.h11.receive_data(b"")
        gone.set()

    async def _refuse(self, response: Response) -> None:
        """The last answer on this connection. What the client still sends is read and dropped for a moment: closing
        on unread bytes is a reset, which would take the answer back."""
        await self._send(response, close=True)
        with contextlib.suppress(OSError):  # a TimeoutError is one
            self.writer.write_eof()
            async with asyncio.timeout(LINGER_S):
                while await self.reader.read(READ_BYTES):
                    pass

    async def _send(self, response: Response, *, close: bool = False) -> None:
        """Status, headers and body; an answer to HEAD has no body."""
        headers = [("content-type", response.content_type), *response.headers.items()]
        if close:
            headers.append(("connection", "close"))
        if isinstance(response.body, bytes):
            headers.append(("content-length", str(len(response.body))))
        else:
            headers.append(("transfer-encoding", "chunked"))
        await self._write(h11.Response(status_code=response.status, headers=headers))
        if isinstance(response.body, bytes):
            await self._write(h11.Data(data=b"" if self.bare else response.body))
        else:
            async with contextlib.aclosing(response.body) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    if self.bare:
                        break
                    await self._write(h11.Data(data=chunk))
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        """Piece by piece: a client that reads slowly but steadily gets all of it, one that stalls is cut off."""
        data = memoryview(self.h11.send(event) or b"")
        for start in range(0, len(data), PIECE_BYTES):
            self.writer.write(data[start : start + PIECE_BYTES])
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self.writer.drain()


def refusal(status: int, sentence: str, peer: Peer | None) -> Response:
    """What the server itself answers; over TCP in the shape that clients of OpenAI's API expect."""
    body: dict[str, object] = {"detail": sentence}
    if peer is None:
        body = {"error": {"message": sentence, "type": "invalid_request_error", "param": None, "code": None}}
    return Response(status, json.dumps(body).encode())


def mistake(peer: Peer | None) -> Response:
    """The answer where a handler failed; over TCP with OpenAI's shape beside ours."""
    detail = "the server made a mistake with this request"
    body: dict[str, object] = {"code": "internal", "detail": detail, "hint": "its log says more"}
    if peer is None:
        body["error"] = {"message": detail, "type": "server_error", "param": None, "code": "internal"}
    return Response(500, json.dumps(body).encode())


def bearer_is(request: Request, key: str) -> bool:
    """Whether the request carries `Authorization: Bearer KEY`, compared in constant time."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    fits = hmac.compare_digest(given.strip().encode("latin-1"), key.encode())
    return fits and scheme.lower() == "bearer"


def peer_of(sock: socket.socket) -> Peer | None:
    """SO_PEERCRED of a Unix socket; None over TCP."""
    if sock.family != socket.AF_UNIX:
        return None
    return Peer(*struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))
