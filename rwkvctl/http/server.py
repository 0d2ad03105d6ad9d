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
import select
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from rwkvctl.http.admission import Admission, ClientShare, GreedyError, RequestMemory
from rwkvctl.http.framing import Framing, FramingError
from rwkvctl.http.listeners import Listening, listen
from rwkvctl.http.peer_credentials import Peer, network_of, peer_of
from rwkvctl.http.unadmitted import MOST_UNADMITTED, UnadmittedConnections

MAX_HEADER_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024  # a client must take so much within DRAIN_TIMEOUT_S
DRAIN_TIMEOUT_S = 10.0
LINGER_S = 2.0
IDLE_TIMEOUT_S = 300.0
REQUEST_TIMEOUT_S = 30.0
HANDSHAKE_TIMEOUT_S = 10.0
SMALL_BYTES = 64 * 1024  # smaller bodies do not count against a client's memory
JSON = "application/json"
NDJSON = "application/x-ndjson"
TOO_MANY = "there are too many connections"

log = logging.getLogger("rwkvctl")


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


@dataclass(slots=True)
class Server:
    """Serves one handler. `at_once` caps how many requests are handled side by side (a stream that has begun does not
    count); each socket has at most `max_connections` of other users (0: four times `at_once`), and one client at most
    its `share`. `admit` sees a request before its body is read and may refuse it with a response."""

    handler: Handler
    max_body_bytes: int = 64 * 1024 * 1024
    at_once: int = 128
    max_connections: int = 0
    admit: Admit | None = None
    share: ClientShare | None = None
    _admissions: list[Admission] = field(default_factory=list)
    gate: asyncio.Semaphore | None = None

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> Listening:
        """Accept clients on a bound socket, Unix or TCP, until what is returned is closed. May be called for several
        sockets."""
        if self.gate is None:
            self.gate = asyncio.Semaphore(self.at_once)
        most = self.max_connections or 4 * self.at_once
        admission = Admission(most, self.share, UnadmittedConnections(min(MOST_UNADMITTED, max(8, most))))
        self._admissions.append(admission)
        return listen(listener, functools.partial(self._welcome, admission, tls))

    async def close(self) -> None:
        """Cancel the connections that are still open and wait for their handlers to end."""
        tasks = set[asyncio.Task[None]]().union(*(admission.tasks for admission in self._admissions))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)

    def _welcome(self, admission: Admission, tls: ssl.SSLContext | None, sock: socket.socket) -> None:
        """Serve one client in a task of its own. Each socket has its own `admission`, so clients over TCP take no
        place of the Unix socket's. While very many clients are being refused, a further one that has no place is
        closed without an answer, as each answer delays the clients that wait to be accepted."""
        if admission.packed() and (peer := peer_of(sock)) is not None and admission.full(peer.uid, peer):
            sock.close()
            return
        task = asyncio.ensure_future(self._serve(admission, tls, sock))
        admission.tasks.add(task)
        task.add_done_callback(admission.tasks.discard)

    async def _serve(self, admission: Admission, tls: ssl.SSLContext | None, sock: socket.socket) -> None:
        writer = None
        try:
            peer = peer_of(sock)
            with ServerClient(admission, peer.uid if peer else network_of(sock.getpeername()[0]), peer) as client:
                reader, writer = await streams(sock, tls)
                connection = _Connection(self, client, reader, writer)
                await (connection.serve() if peer is None or client.comes_in() else connection.turn_away())
                writer.close()
        except (OSError, asyncio.CancelledError):  # TimeoutError and SSLError are OSErrors
            abort(writer, sock)
        except Exception:  # the status has been sent, so the connection can only be closed
            log.exception("an answer broke off")
            abort(writer, sock)


async def streams(sock: socket.socket, tls: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of an accepted socket, behind TLS if there is a context. Raises OSError if the TLS handshake
    fails."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    timeouts = {"ssl_handshake_timeout": HANDSHAKE_TIMEOUT_S, "ssl_shutdown_timeout": LINGER_S} if tls else {}
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=tls, **timeouts)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def abort(writer: asyncio.StreamWriter | None, sock: socket.socket) -> None:
    """Close a connection at once, whether or not it has streams yet."""
    if writer is None:
        sock.close()
    else:
        writer.transport.abort()


@dataclass(slots=True)
class ServerClient:
    """The client of one connection: `who` is its uid, or over TCP its address. A connection over TCP counts as
    unadmitted until one of its requests has been admitted."""

    admission: Admission
    who: Hashable
    peer: Peer | None
    inside: bool = False
    _unadmitted: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _admitted: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        if self.peer is None:
            self._unadmitted.enter_context(self.admission.unadmitted.waiting(self.who))
        return self

    def __exit__(self, *_: object) -> None:
        self._unadmitted.close()
        self._admitted.close()

    def comes_in(self) -> bool:
        """Take one of the places for admitted connections; returns whether there was one."""
        if not self.inside:
            self.inside = self._admitted.enter_context(self.admission.entering(self.who, self.peer))
            if self.inside:
                self._unadmitted.close()
        return self.inside


class _Connection:
    """One client: requests one after another on the same socket."""

    def __init__(
        self, server: Server, client: ServerClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server, self.client, self.reader, self.writer = server, client, reader, writer
        self.h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self.framing, self.begun = Framing(), b""
        self.peer = client.peer
        self.bare = False
        self.hung_up = False
        self.streaming: asyncio.Timeout | None = None
        writer.transport.set_write_buffer_limits(high=1)  # `drain` waits until the kernel has all of a piece (TLS: of 0
        # bytes it never hears that they have gone)
        if self.peer is None:  # or the kernel would tell of room only once megabytes are free
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, PIECE_BYTES)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or a body waits 40 ms for the ACK of its head;
            # asyncio sets it only where the listener names its protocol, which create_server() does not

    async def turn_away(self) -> None:
        """Refuse the connection, as there are too many, and wait until the refusal is read."""
        await self._refuse(refusal(503, TOO_MANY, self.peer))

    async def serve(self) -> None:
        while await self._has_begun():
            self.bare = False
            with self.client.admission.holding(self.client.who) as held:
                if (request := await self._request(held)) is None:
                    return
                await self._answer(request, held)
            if self.h11.our_state is not h11.DONE or self.h11.their_state is not h11.DONE:
                return

    async def _has_begun(self) -> bool:
        """Wait for the first byte of the next request; False if the client closes the connection. Empty lines before it
        are dropped (RFC 9112, 2.2). A connection that is idle for `IDLE_TIMEOUT_S` is closed."""
        data, closed = self.h11.trailing_data
        data = data.lstrip(b"\r\n")
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            while not data and not closed:
                read = await self.reader.read(READ_BYTES)
                data, closed = read.lstrip(b"\r\n"), not read
        self.h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self.framing, self.begun = Framing(), data
        self.h11.receive_data(data)
        if closed and data:
            self.h11.receive_data(b"")
        return bool(data)

    async def _request(self, held: RequestMemory) -> Request | None:
        """Return the next request, read whole; None if there is none, or if it was refused and this connection ends."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await self._read_request(held)
        except TimeoutError:
            response = refusal(408, "the request took too long to arrive", self.peer)
        except FramingError as error:
            response = refusal(400, str(error), self.peer)
        except (h11.RemoteProtocolError, ValueError) as error:
            status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
            response = refusal(status, "that is not HTTP/1.1", self.peer)
        except TooLargeError as error:
            response = refusal(413, str(error), self.peer)
        except GreedyError as error:
            response = refusal(503, str(error), self.peer)
        except UnwelcomeError as error:
            response = error.response
        await self._refuse(response)
        return None

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self.h11.next_event()
            if event is h11.NEED_DATA:
                if self.h11.they_are_waiting_for_100_continue:
                    self.writer.write(self.h11.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                data = await self.reader.read(READ_BYTES)
                self.framing.see(data)
                self.h11.receive_data(data)
                continue
            return event  # type: ignore[return-value]

    async def _read_request(self, held: RequestMemory) -> Request | None:
        self.framing.see(self.begun)
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
        if not self.client.comes_in():
            raise UnwelcomeError(refusal(503, TOO_MANY, self.peer))
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > self.server.max_body_bytes:
                raise TooLargeError(f"the request is over {self.server.max_body_bytes} bytes")
            if len(body) > held.bytes + SMALL_BYTES:
                held.take(len(body) - held.bytes)
        if not isinstance(event, h11.EndOfMessage):
            return None
        return dataclasses.replace(request, body=bytes(body))

    async def _answer(self, request: Request, held: RequestMemory) -> None:
        """Run the handler while watching for the client to hang up."""
        self.hung_up = False
        watcher = asyncio.ensure_future(self._watch(request.gone))
        gate = self.server.gate
        assert gate is not None
        try:
            async with self.client.admission.turn(self.client.who), gate:
                response = await self._handled(request)
            await self._send(self._counted(response, held))
        finally:
            request.gone.set()  # a stream that never began has no other way to hear of the end
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    def _counted(self, response: Response, held: RequestMemory) -> Response:
        """Return the response, or a refusal if it would take more memory than its client may hold."""
        try:
            if isinstance(response.body, bytes) and len(response.body) > SMALL_BYTES:
                held.take(len(response.body))
        except GreedyError as error:
            return refusal(503, str(error), self.peer)
        return response

    async def _handled(self, request: Request) -> Response:
        """Return the handler's response; an unexpected error is logged, and answered with 500 and no details."""
        try:
            return await self.server.handler(request)
        except ConnectionError:  # the handler forwards to a server that has hung up: this connection is closed as well
            raise
        except Exception:
            log.exception("%s %s cannot be answered", request.method, request.path)
            return mistake(self.peer)

    async def _watch(self, gone: asyncio.Event) -> None:
        """Set `gone` at end of file, or at a reset (a client that left responses unread). Requests that a pipelining
        client sends ahead are kept for h11; a client that sends more than READ_BYTES ahead is cut off."""
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
        self.hung_up = self._nobody_reads()
        if self.hung_up:
            self._let_go()

    def _nobody_reads(self) -> bool:
        """Whether the client has closed both directions. A client that only shut down its sending side may still
        read; over TCP the two cannot be told apart."""
        sock = self.writer.get_extra_info("socket")
        if self.peer is None or sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(sock.fileno(), 0)
        return bool(poll.poll(0))

    def _let_go(self) -> None:
        """End a stream that waits for its next item at once: it would find out only with its next write, which may
        be far off, and until then it takes a place."""
        if self.streaming is not None:
            self.streaming.reschedule(asyncio.get_running_loop().time())

    async def _refuse(self, response: Response) -> None:
        """Send the last response on this connection. What the client still sends is read and dropped for `LINGER_S`:
        closing with unread bytes resets the connection, and the client would lose the response."""
        await self._send(response, close=True)
        with contextlib.suppress(OSError):  # a TimeoutError is one
            if self.writer.can_write_eof():  # TLS cannot
                self.writer.write_eof()
            async with asyncio.timeout(LINGER_S):
                while await self.reader.read(READ_BYTES):
                    pass

    async def _send(self, response: Response, *, close: bool = False) -> None:
        """Send status, headers and body; a response to HEAD has no body."""
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
            await self._stream(response.body)
        await self._write(h11.EndOfMessage())

    async def _stream(self, body: AsyncIterator[bytes]) -> None:
        """Send chunks as they come. Raises TimeoutError once the client has hung up."""
        try:
            async with asyncio.timeout(None) as self.streaming, contextlib.aclosing(body) as chunks:  # type: ignore[type-var]
                if self.hung_up:
                    self._let_go()
                async for chunk in chunks:
                    if self.bare:
                        break
                    await self._write(h11.Data(data=chunk))
        finally:
            self.streaming = None

    async def _write(self, event: h11.Event) -> None:
        """Send an event in pieces of `PIECE_BYTES`, each within `DRAIN_TIMEOUT_S`: a client that reads slowly gets
        all of it, one that stalls is cut off."""
        data = memoryview(self.h11.send(event) or b"")
        for start in range(0, len(data), PIECE_BYTES):
            self.writer.write(data[start : start + PIECE_BYTES])
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self.writer.drain()


def refusal(status: int, sentence: str, peer: Peer | None) -> Response:
    """Return an error that the server itself answers with; over TCP it has OpenAI's error fields as well."""
    body: dict[str, object] = {"detail": sentence}
    if peer is None:
        body["error"] = {"message": sentence, "type": "invalid_request_error", "param": None, "code": None}
    return Response(status, json.dumps(body).encode())


def mistake(peer: Peer | None) -> Response:
    """Return the response to a request whose handler failed; over TCP it has OpenAI's error fields as well."""
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
