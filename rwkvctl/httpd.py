"""A small HTTP/1.1 server on h11 and asyncio, shared by the daemon and the engine.

It gives what both need and frameworks hide: the peer's credentials for each connection, bounded headers and bodies,
back-pressure on streams, and notice of a client that hung up. One handler takes every request; routing is a table the
caller owns. Over TCP there are no credentials, so a handler that may be reached there asks `bearer_is`.
"""

import asyncio
import contextlib
import hmac
import json
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
DRAIN_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 300.0
REQUEST_TIMEOUT_S = 30.0
JSON = "application/json"
NDJSON = "application/x-ndjson"


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
    """Serves one handler. `at_once` caps how many requests are answered side by side; idle connections cost nothing."""

    handler: Handler
    max_body_bytes: int = 64 * 1024 * 1024
    at_once: int = 128
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    gate: asyncio.Semaphore | None = None

    async def start(self, listener: socket.socket) -> asyncio.Server:
        """Accept clients on a bound socket, Unix or TCP, until the returned server is closed. May be called for
        several sockets."""
        if self.gate is None:
            self.gate = asyncio.Semaphore(self.at_once)
        if listener.family == socket.AF_UNIX:
            return await asyncio.start_unix_server(self._accept, sock=listener, limit=READ_BYTES)
        return await asyncio.start_server(self._accept, sock=listener, limit=READ_BYTES)

    async def close(self) -> None:
        """Cancel the connections that are still open and wait for their handlers to end."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _Connection(self, reader, writer).serve()
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()


class _Connection:
    """One client: requests one after another on the same socket."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self.peer = peer_of(writer.get_extra_info("socket"))

    async def serve(self) -> None:
        while await self._has_begun():
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    request = await self._read_request()
            except TimeoutError:
                await self._send(refusal(408, "the request took too long to arrive", self.peer), close=True)
                return
            except (h11.RemoteProtocolError, ValueError) as error:
                status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
                await self._send(refusal(status, "that is not HTTP/1.1", self.peer), close=True)
                return
            except TooLargeError as error:
                await self._send(refusal(413, str(error), self.peer), close=True)
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
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > self.server.max_body_bytes:
                raise TooLargeError(f"the request is over {self.server.max_body_bytes} bytes")
        if not isinstance(event, h11.EndOfMessage):
            return None
        target = urlsplit(head.target.decode("ascii"))
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        return Request(
            head.method.decode(), unquote(target.path), query, headers, bytes(body), self.peer, asyncio.Event()
        )

    async def _answer(self, request: Request) -> None:
        """Run the handler while watching for the client to hang up."""
        watcher = asyncio.ensure_future(self._watch(request.gone))
        gate = self.server.gate
        assert gate is not None
        try:
            async with gate:
                await self._send(await self.server.handler(request), bare=request.method == "HEAD")
        finally:
            request.gone.set()  # a stream that never began has no other way to hear of the end
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def _watch(self, gone: asyncio.Event) -> None:
        """Set `gone` at end of file, or at a reset: a client that left answers unread. A pipelining client would stall
        here, so what it sends is kept for h11."""
        try:
            data = await self.reader.read(READ_BYTES)
        except ConnectionError:
            gone.set()
            return
        self.h11.receive_data(data)
        if not data:
            gone.set()

    async def _send(self, response: Response, *, close: bool = False, bare: bool = False) -> None:
        """Status, headers and body; `bare` leaves the body out, as an answer to HEAD must."""
        headers = [("content-type", response.content_type), *response.headers.items()]
        if close:
            headers.append(("connection", "close"))
        if isinstance(response.body, bytes):
            headers.append(("content-length", str(len(response.body))))
        else:
            headers.append(("transfer-encoding", "chunked"))
        await self._write(h11.Response(status_code=response.status, headers=headers))
        if isinstance(response.body, bytes):
            await self._write(h11.Data(data=b"" if bare else response.body))
        else:
            async with contextlib.aclosing(response.body) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    if bare:
                        break
                    await self._write(h11.Data(data=chunk))
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        self.writer.write(self.h11.send(event) or b"")
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            await self.writer.drain()


def refusal(status: int, sentence: str, peer: Peer | None) -> Response:
    """What the server itself answers; over TCP in the shape that clients of OpenAI's API expect."""
    body: dict[str, object] = {"detail": sentence}
    if peer is None:
        body = {"error": {"message": sentence, "type": "invalid_request_error", "param": None, "code": None}}
    return Response(status, json.dumps(body).encode())


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
