"""The HTTP server on real Unix sockets, talked to byte by byte."""

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from waiting import LIMIT_S, soon

from rwkvctl.http import server as httpd
from rwkvctl.http.admission import ClientShare
from rwkvctl.http.listeners import SocketInUseError, bind_tcp, bind_unix
from rwkvctl.http.server import Request, Response, Server

BIG = 8 * 1024 * 1024
Talk = Callable[[], Awaitable["Client"]]


class Client:
    """A connection and the bytes that come back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *parts: bytes) -> None:
        self.writer.writelines(parts)
        await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: bytes) -> None:
        length = b"content-length: %d\r\n" % len(body) if body else b""
        more = b"".join(header + b"\r\n" for header in headers)
        await self.send(
            b"%s %s HTTP/1.1\r\nhost: x\r\n" % (method.encode(), path.encode()), length, more, b"\r\n", body
        )

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        async with asyncio.timeout(LIMIT_S):
            text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = text.strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return int(status.split()[1]), {name.lower(): value for name, value in pairs}

    async def response(self) -> tuple[int, bytes]:
        """Status and body of the next response with a length."""
        status, headers = await self.head()
        async with asyncio.timeout(LIMIT_S):
            return status, await self.reader.readexactly(int(headers["content-length"]))

    async def chunk(self) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            size = int(await self.reader.readline(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.read()


class Node:
    """A handler that shows what it was given, and streams when asked to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.entered = asyncio.Event()
        self.feed: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.asked: Request | None = None

    async def __call__(self, request: Request) -> Response:
        self.asked = request
        match request.path:
            case "/wait":
                self.entered.set()
                await request.gone.wait()
                self.gone.set()
                return Response()
            case "/stream":
                return Response(200, self.chunks(request), httpd.NDJSON)
            case "/big":
                return Response(200, bytes(BIG))
            case "/mistake":
                raise TimeoutError("a secret")
            case "/peer":
                assert request.peer is not None
                return Response(200, f"{request.peer.pid} {request.peer.uid} {request.peer.gid}".encode())
        shown = f"{request.method} {request.path} {sorted(request.query.items())} ".encode()
        return Response(200, shown + request.body, headers={"x-seen": request.headers.get("x-a", "")})

    async def chunks(self, request: Request) -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            while (item := await self.feed.get()) is not None:
                yield item
        finally:
            self.closed.set()


@pytest.fixture
async def node() -> Node:
    return Node()


@pytest.fixture
async def talk(tmp_path: Path, node: Node) -> AsyncIterator[Talk]:
    """A server of at most 3 clients and 100 kB a request; gives connections to it."""
    server = Server(node, max_body_bytes=100_000, at_once=3)
    accepting = await server.start(bind_unix(tmp_path / "run" / "d.sock"))
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_unix_connection(tmp_path / "run" / "d.sock")))
        return clients[-1]

    yield connect
    for client in clients:
        client.writer.close()
    accepting.close()
    await server.close()
    await asyncio.wait([accepting.task])


# -- requests


async def test_a_request_arrives_whole_and_many_follow_on_one_connection(talk: Talk) -> None:
    client = await talk()
    await client.ask("GET", "/a%20b?x=1&y=&x=2", b"", b"X-A: v")
    status, headers = await client.head()
    assert (status, headers["x-seen"], headers["content-type"]) == (200, "v", "application/json")
    assert await client.reader.readexactly(int(headers["content-length"])) == b"GET /a b [('x', '2'), ('y', '')] "
    for number in range(3):
        await client.ask("POST", f"/{number}", b"body %d" % number)
        assert await client.response() == (200, b"POST /%d [] body %d" % (number, number))


async def test_requests_sent_ahead_are_answered_in_order(talk: Talk) -> None:
    client = await talk()
    for number in range(5):
        await client.ask("GET", f"/{number}")
    for number in range(5):
        assert await client.response() == (200, b"GET /%d [] " % number)


async def test_empty_lines_before_a_request_are_dropped(talk: Talk) -> None:
    """RFC 9112, 2.2: old clients send one after a body."""
    client = await talk()
    for lines in (b"\r\n", b"\n\r\n\r\n", b""):
        await client.send(lines)
        await client.ask("POST", "/p", b"body")
        assert await client.response() == (200, b"POST /p [] body")
        await client.send(b"\r\n")
    await client.send(
        b"\r", b"\n", b"\r\nGET /split HTTP/1.1\r\nhost: x\r\n\r\n\r\nGET /next HTTP/1.1\r\nhost: x\r\n\r\n"
    )
    assert await client.response() == (200, b"GET /split [] ")
    assert await client.response() == (200, b"GET /next [] ")


async def test_a_client_that_only_sends_empty_lines_is_idle(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "IDLE_TIMEOUT_S", 0.2)
    client = await talk()
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(LIMIT_S):
            while not client.reader.at_eof():
                await client.send(b"\r\n")
                await asyncio.sleep(0.01)
    client.writer.close()


async def test_a_client_that_closes_its_half_still_gets_its_answer(talk: Talk) -> None:
    client = await talk()
    await client.ask("POST", "/p", b"body")
    client.writer.write_eof()
    assert await client.response() == (200, b"POST /p [] body")
    assert await client.rest() == b""


async def test_a_client_that_closes_its_half_in_a_request_is_let_go(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.send(b"POST /p HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nab")
    client.writer.write_eof()
    assert (await client.head())[0] == 400
    assert not node.entered.is_set()


async def test_a_body_may_come_in_pieces_and_after_a_promise(talk: Talk) -> None:
    client = await talk()
    await client.send(b"POST /p HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n")
    assert (await client.head())[0] == 100
    for byte in b"0123456789":
        await client.send(bytes([byte]))
    assert await client.response() == (200, b"POST /p [] 0123456789")


async def test_the_peer_is_who_the_kernel_says(talk: Talk, tmp_path: Path) -> None:
    client = await talk()
    await client.ask("GET", "/peer")
    assert await client.response() == (200, f"{os.getpid()} {os.getuid()} {os.getgid()}".encode())
    code = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'GET /peer HTTP/1.0\\r\\n\\r\\n'); print(os.getpid(), s.makefile('rb').read().split()[-3])"
    )
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", code, str(tmp_path / "run/d.sock"), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await other.communicate()
    pid, seen = said.decode().split()
    assert seen == f"b'{pid}'"


@pytest.mark.parametrize(
    "head",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # somebody tries TLS
        b"GET / HTTP/1.1\r\n\r\n",  # no host
        b"GET //[ HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_400_and_the_connection_is_closed(talk: Talk, head: bytes) -> None:
    client = await talk()
    await client.send(head)
    assert await client.response() == (400, b'{"detail": "that is not HTTP/1.1"}')
    assert await client.rest() == b""
    again = await talk()
    await again.ask("GET", "/")
    assert (await again.response())[0] == 200


async def test_headers_are_bounded(talk: Talk) -> None:
    client = await talk()
    with contextlib.suppress(ConnectionError):
        await client.ask("GET", "/", b"", *(b"x-%d: %s" % (n, b"v" * 1000) for n in range(300)))
    assert (await client.head())[0] == 431


async def test_a_body_over_the_limit_gets_413(talk: Talk) -> None:
    client = await talk()
    await client.ask("POST", "/", b"x" * 100_000)
    assert (await client.response())[0] == 200
    with contextlib.suppress(ConnectionError):
        await client.ask("POST", "/", b"x" * 100_001)
    assert await client.response() == (413, b'{"detail": "the request is over 100000 bytes"}')


async def test_who_is_refused_hears_that_the_connection_ends(talk: Talk) -> None:
    """Else a client that keeps connections would send its next request on this one, and lose it."""
    client = await talk()
    await client.ask("GET", "/")
    assert "connection" not in (await client.head())[1]
    refused = await talk()
    await refused.ask("POST", "/", b"x" * 100_001)
    status, headers = await refused.head()
    assert (status, headers["connection"]) == (413, "close")


async def test_an_answer_to_head_has_no_body(talk: Talk) -> None:
    client = await talk()
    await client.ask("HEAD", "/")
    status, headers = await client.head()
    assert (status, int(headers["content-length"]) > 0) == (200, True)
    await client.ask("HEAD", "/stream")
    assert (await client.head())[0] == 200
    await client.ask("GET", "/next")
    assert await client.response() == (200, b"GET /next [] ")


async def test_an_old_client_gets_an_answer_without_chunks(talk: Talk, node: Node) -> None:
    client = await talk()
    node.feed.put_nowait(None)
    await client.send(b"GET /stream HTTP/1.0\r\n\r\n")
    assert (await client.rest()).endswith(b"\r\n\r\nfirst\n")


async def test_a_mistake_of_the_handler_is_answered_and_logged(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    client = await talk()
    await client.ask("GET", "/mistake")
    status, body = await client.response()
    assert (status, set(json.loads(body)), json.loads(body)["code"]) == (500, {"code", "detail", "hint"}, "internal")
    assert b"secret" not in body
    assert "GET /mistake" in caplog.text
    assert "a secret" in caplog.text
    await client.ask("GET", "/next")
    assert await client.response() == (200, b"GET /next [] ")


# -- over TCP


@contextlib.asynccontextmanager
async def over_tcp(server: Server) -> AsyncIterator[Talk]:
    listener = bind_tcp("127.0.0.1", 0)
    accepting = await server.start(listener)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        stack.callback(accepting.close)

        async def connect() -> Client:
            client = Client(*await asyncio.open_connection(*listener.getsockname()))
            stack.callback(client.writer.close)
            return client

        yield connect


async def test_no_body_over_tcp_waits_for_the_ack_of_its_head(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, streams = list[socket.socket](), httpd.streams

    async def seen(sock: socket.socket, tls: None) -> object:
        accepted.append(sock.dup())
        return await streams(sock, tls)

    monkeypatch.setattr(httpd, "streams", seen)
    async with over_tcp(Server(node)) as connect:
        client = await connect()
        await client.ask("GET", "/a")
        await client.response()
    [one] = accepted
    with one:
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def keyed(request: Request) -> Response | None:
    assert request.body == b""
    return None if httpd.bearer_is(request, "key") else Response(401, b"no")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\nhost: x\n\n", "the lines of a request must end in CRLF"),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n", "the headers of a request must not be folded"),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
            "a request has one Content-Length, and that is a number",
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
            "the size of a chunk must be a hexadecimal number, without extensions",
        ),
    ],
)
async def test_a_request_whose_end_is_not_certain_is_refused(talk: Talk, data: bytes, says: str) -> None:
    for before in (b"", b"GET /first HTTP/1.1\r\nhost: x\r\n\r\n"):
        client = await talk()
        await client.send(before + data)
        if before:
            assert (await client.response())[0] == 200
        status, body = await client.response()
        assert (status, json.loads(body)["detail"]) == (400, says)
        assert await client.rest() == b""


async def test_a_body_in_chunks_is_read(talk: Talk) -> None:
    client = await talk()
    for _ in range(2):
        await client.ask("POST", "/p", b"", b"transfer-encoding: chunked")
        await client.send(b"3\r\na\nb\r\n", b"2\r\n\r\n\r\n0\r\n\r\n")
        assert await client.response() == (200, b"POST /p [] a\nb\r\n")


async def test_a_request_is_admitted_before_its_body_is_read(node: Node) -> None:
    async with over_tcp(Server(node, admit=keyed)) as talk:
        client = await talk()
        await client.send(b"POST /p HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n")
        assert await client.response() == (401, b"no")
        assert await client.rest() == b""
        promised = await talk()
        await promised.ask("POST", "/p", b"", b"expect: 100-continue", b"content-length: 5")
        assert await promised.response() == (401, b"no")
        head = await talk()
        await head.ask("HEAD", "/p")
        assert (await head.head())[0] == 401
        assert await head.rest() == b""
        known = await talk()
        for body in (b"one", b"two"):
            await known.ask("POST", "/p", body, b"authorization: Bearer key")
            assert await known.response() == (200, b"POST /p [] " + body)


async def test_who_is_refused_in_the_middle_of_a_body_still_hears_why(node: Node) -> None:
    async with over_tcp(Server(node, admit=keyed)) as talk:
        client = await talk()
        await client.ask("POST", "/p", bytes(BIG))
        assert await client.response() == (401, b"no")


async def test_who_goes_on_sending_after_a_refusal_is_cut_off(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "LINGER_S", 0.2)
    async with over_tcp(Server(node, admit=keyed)) as talk:
        client = await talk()
        await client.send(b"POST /p HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n")

        async def drip() -> None:
            while True:
                await client.send(b"x" * 1000)
                await asyncio.sleep(0.01)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(drip(), LIMIT_S)


async def test_a_mistake_over_tcp_has_the_shape_of_openai_too(node: Node) -> None:
    async with over_tcp(Server(node)) as talk:
        client = await talk()
        await client.ask("GET", "/mistake")
        status, body = await client.response()
        assert (status, json.loads(body)["code"], json.loads(body)["error"]["type"]) == (
            500,
            "internal",
            "server_error",
        )


async def test_connections_are_bounded_for_each_socket(node: Node, tmp_path: Path) -> None:
    server = Server(node, max_connections=2)
    async with over_tcp(server) as talk:
        first, second = await talk(), await talk()
        for client in (first, second):
            await client.ask("GET", "/a")
            assert await client.response() == (200, b"GET /a [] ")
        third = await talk()
        await third.ask("GET", "/a")
        assert (await third.head())[0] == 503
        accepting = await server.start(bind_unix(tmp_path / "d.sock"))
        own = Client(*await asyncio.open_unix_connection(tmp_path / "d.sock"))
        await own.ask("GET", "/own")
        assert await own.response() == (200, b"GET /own [] "), "strangers do not fill the Unix socket"
        own.writer.close()
        accepting.close()
        first.writer.close()
        async with asyncio.timeout(LIMIT_S):
            while True:
                late = await talk()
                with contextlib.suppress(ConnectionError):
                    await late.ask("GET", "/late")
                    if (await late.head())[0] == 200:
                        break


# -- the share of one client


SHARE = ClientShare(connections=4, requests=2, bytes=200_000)


@contextlib.asynccontextmanager
async def sharing(node: Node, path: Path) -> AsyncIterator[tuple[Talk, Server]]:
    """A server where nobody gets more than SHARE."""
    server = Server(node, share=SHARE)
    accepting = await server.start(bind_unix(path))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        stack.callback(accepting.close)

        async def connect() -> Client:
            client = Client(*await asyncio.open_unix_connection(path))
            stack.callback(client.writer.close)
            return client

        yield connect, server


async def test_nobody_gets_more_connections_than_a_share(node: Node, tmp_path: Path) -> None:
    async with sharing(node, tmp_path / "d.sock") as (talk, _):
        clients = [await talk() for _ in range(SHARE.connections)]
        for client in clients:
            await client.ask("GET", "/a")
            assert (await client.response())[0] == 200
        late = await talk()
        status, body = await late.response()
        assert (status, json.loads(body)["detail"]) == (503, "there are too many connections")
        clients[0].writer.close()
        async with asyncio.timeout(LIMIT_S):
            while True:
                late = await talk()
                await late.ask("GET", "/late")
                if (await late.head())[0] == 200:
                    break


async def test_nobody_has_more_requests_handled_at_once_than_a_share_and_streams_are_none(
    node: Node, tmp_path: Path
) -> None:
    async with sharing(node, tmp_path / "d.sock") as (talk, server):
        followers = [await talk() for _ in range(2)]
        for client in followers:
            await client.ask("GET", "/stream")
            assert await client.head()
        waiting, other = await talk(), await talk()
        await waiting.ask("GET", "/wait")
        await node.entered.wait()
        await other.ask("GET", "/quick")
        assert await other.response() == (200, b"GET /quick [] "), "two streams and a waiting request leave one turn"
        (admission,) = server._admissions
        assert [turn._value for turn in admission.turns.values()] == [1]


async def test_nobody_has_the_server_hold_more_memory_than_a_share(node: Node, tmp_path: Path) -> None:
    async with sharing(node, tmp_path / "d.sock") as (talk, server):
        (admission,) = server._admissions
        first, second = await talk(), await talk()
        head = b"POST /p HTTP/1.1\r\nhost: x\r\ncontent-length: 150001\r\n\r\n"
        await first.send(head, bytes(150_000))
        await soon(lambda: admission.bytes, "the first is counted")
        await second.send(head, bytes(150_000))
        status, body = await second.response()
        assert (status, json.loads(body)["detail"]) == (
            503,
            "you have too much under way at once; ask again in a moment",
        )
        await first.send(b"x")
        assert (await first.response())[0] == 503, "an answer that repeats it all is more than the share, too"
        small = await talk()
        await small.ask("POST", "/p", bytes(50_000))
        assert (await small.response())[0] == 200
        first.writer.close()
        await soon(lambda: not admission.bytes, "all is given back")


# -- streams and clients that go


@pytest.mark.parametrize("tcp", [False, True])
async def test_a_slow_but_steady_reader_gets_all_of_a_big_answer(
    talk: Talk, node: Node, monkeypatch: pytest.MonkeyPatch, tcp: bool
) -> None:
    monkeypatch.setattr(httpd, "DRAIN_TIMEOUT_S", 1.0)
    async with over_tcp(Server(node)) as talk_tcp:
        for path in ("/big", "/stream"):
            client = await (talk_tcp if tcp else talk)()
            await client.ask("GET", path)
            node.feed.put_nowait(bytes(BIG))
            node.feed.put_nowait(None)
            await client.head()
            read = 0
            while read < BIG:  # 4 MB/s
                read += len(data := await client.reader.read(64 * 1024))
                assert data, f"cut off after {read} bytes"
                await asyncio.sleep(len(data) / 4e6)
            client.writer.close()


async def test_a_stream_is_sent_as_it_comes(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.ask("GET", "/stream")
    status, headers = await client.head()
    assert (status, headers["transfer-encoding"], headers["content-type"]) == (200, "chunked", httpd.NDJSON)
    assert await client.chunk() == b"first\n"
    for text in (b"second\n", b"third\n"):
        node.feed.put_nowait(text)
        assert await client.chunk() == text
    node.feed.put_nowait(None)
    assert await client.chunk() == b""
    assert node.closed.is_set()
    await client.ask("GET", "/after")
    assert await client.response() == (200, b"GET /after [] ")


async def test_a_client_that_hangs_up_sets_gone(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.ask("GET", "/wait")
    async with asyncio.timeout(LIMIT_S):
        await node.entered.wait()
        assert not node.gone.is_set()
        client.writer.close()
        await node.gone.wait()


async def test_a_client_that_said_more_and_then_hangs_up_sets_gone(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.ask("GET", "/wait")
    async with asyncio.timeout(LIMIT_S):
        await node.entered.wait()
        for _ in range(3):
            await client.send(b"\r\n")
            await asyncio.sleep(0.01)
        assert not node.gone.is_set()
        client.writer.close()
        await node.gone.wait()


async def test_a_client_that_sends_far_ahead_is_cut_off(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.ask("GET", "/wait")
    async with asyncio.timeout(LIMIT_S):
        await node.entered.wait()
        await client.send(b"x" * httpd.READ_BYTES)
        await asyncio.sleep(0.05)
        assert not node.gone.is_set()
        await client.send(b"x")
        await node.gone.wait()
    with contextlib.suppress(ConnectionError):
        assert await client.rest() == b""


async def test_a_client_that_is_killed_with_unread_bytes_sets_gone(node: Node, tmp_path: Path) -> None:
    """The kernel reports a reset here, not an end of file."""
    unread = asyncio.Event()

    async def answer(request: Request) -> Response:
        if request.path == "/first":
            return Response(200, b"never read")
        unread.set()
        return await node(request)

    server = Server(answer)
    accepting = await server.start(bind_unix(tmp_path / "d.sock"))
    code = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'GET /first HTTP/1.1\\r\\nhost: x\\r\\n\\r\\nGET /wait HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n');"
        "time.sleep(600)"
    )
    client = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", code, str(tmp_path / "d.sock"))
    try:
        async with asyncio.timeout(LIMIT_S):
            await node.entered.wait()
            assert unread.is_set()
            client.send_signal(signal.SIGKILL)
            await node.gone.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            client.kill()
        await client.wait()
        accepting.close()
        await server.close()


async def test_a_stream_whose_reader_is_gone_is_closed(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.ask("GET", "/stream")
    await client.head()
    client.writer.transport.abort()
    async with asyncio.timeout(LIMIT_S):
        while not node.closed.is_set():
            node.feed.put_nowait(b"x" * 1000)
            await asyncio.sleep(0.001)


async def test_a_stream_that_has_nothing_to_tell_ends_with_its_client(talk: Talk, node: Node) -> None:
    for number in range(6):  # twice as many as there is room for
        client = await talk()
        await client.ask("GET", "/stream")
        await client.head()
        assert await client.chunk() == b"first\n"
        client.writer.transport.abort() if number % 2 else client.writer.close()
        await asyncio.wait_for(node.closed.wait(), LIMIT_S)
        node.closed.clear()


async def test_a_follower_that_closes_its_half_goes_on_reading(talk: Talk, node: Node) -> None:
    client = await talk()
    await client.ask("GET", "/stream")
    await client.head()
    assert await client.chunk() == b"first\n"
    client.writer.write_eof()
    await soon(lambda: node.asked and node.asked.gone.is_set(), "the server has seen it")
    await node.feed.put(b"second\n")
    assert await client.chunk() == b"second\n"


async def test_a_reader_that_stalls_is_dropped_and_costs_bounded_memory(
    talk: Talk, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpd, "DRAIN_TIMEOUT_S", 0.1)
    client = await talk()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    await client.ask("GET", "/stream")
    node.feed = asyncio.Queue(2)
    written = 0
    async with asyncio.timeout(LIMIT_S):
        while not node.closed.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(node.feed.put(b"x" * 10_000), 0.05)
                written += 10_000
    assert written < 4_000_000, "what nobody reads is not kept"


async def test_who_asks_and_never_reads_is_dropped(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "DRAIN_TIMEOUT_S", 0.1)
    stalled = await talk()
    stalled.reader._transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(3):
        await stalled.ask("GET", "/big")
    first = stalled.writer.get_extra_info("socket")
    watch = select.poll()
    watch.register(first, select.POLLHUP)
    await soon(lambda: watch.poll(0), "the server hangs up")


async def test_a_request_that_comes_byte_by_byte_has_a_deadline(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "REQUEST_TIMEOUT_S", 0.5)
    slow = [await talk() for _ in range(3)]

    async def drip(client: Client) -> None:
        with contextlib.suppress(ConnectionError):
            await client.send(b"GET / HTTP/1.1\r\nhost: x\r\n")
            while True:
                await client.send(b"a: b\r\n")
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        dripping = [tasks.create_task(drip(client)) for client in slow]
        honest = await talk()
        await honest.ask("GET", "/honest")
        assert await honest.response() == (200, b"GET /honest [] "), "it waited until the slow ones were dropped"
        for task in dripping:
            task.cancel()
    with contextlib.suppress(ConnectionResetError):  # it was still talking when it was cut off
        assert (await slow[0].head())[0] == 408


async def test_a_body_that_never_comes_has_a_deadline(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "REQUEST_TIMEOUT_S", 0.1)
    client = await talk()
    await client.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab")
    assert (await client.head())[0] == 408


async def test_an_idle_connection_makes_room_in_the_end(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "IDLE_TIMEOUT_S", 0.5)
    idle = [await talk() for _ in range(3)]
    late = await talk()
    await late.ask("GET", "/late")
    assert await late.response() == (200, b"GET /late [] ")
    for client in idle:
        with contextlib.suppress(ConnectionResetError):
            assert await client.rest() == b""


async def test_closing_the_server_ends_waiting_handlers(tmp_path: Path, node: Node) -> None:
    server = Server(node)
    accepting = await server.start(bind_unix(tmp_path / "d.sock"))
    client = Client(*await asyncio.open_unix_connection(tmp_path / "d.sock"))
    await client.ask("GET", "/wait")
    async with asyncio.timeout(LIMIT_S):
        await node.entered.wait()
        accepting.close()
        await server.close()
    with contextlib.suppress(ConnectionResetError):
        assert await client.rest() == b""
    client.writer.close()


# -- the socket file


def test_the_socket_is_private_from_its_first_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    real = socket.socket.bind

    class Watched(socket.socket):
        def bind(self, address: object, /) -> None:  # type: ignore[override]
            real(self, address)  # type: ignore[arg-type]
            modes.append(stat.S_IMODE(Path(str(address)).stat().st_mode))

    monkeypatch.setattr(socket, "socket", Watched)
    before = os.umask(0)
    try:
        bind_unix(tmp_path / "run" / "d.sock").close()
        assert os.umask(0) == 0, "the umask is as it was"
    finally:
        os.umask(before)
    assert modes == [0o600]
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700


def test_a_stale_socket_is_removed_and_a_live_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
        "print(flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        owner.stdout.readline()
        with pytest.raises(SocketInUseError, match=f"another process answers on {path}"):
            bind_unix(path)
        assert path.exists()
    finally:
        owner.kill()
        owner.communicate()
    assert path.exists(), "a killed owner leaves its file"
    with contextlib.closing(bind_unix(path)) as listener:
        with pytest.raises(SocketInUseError):
            bind_unix(path)
        assert listener.fileno() >= 0


def test_a_live_socket_whose_backlog_is_full_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    with contextlib.ExitStack() as stack:
        busy = stack.enter_context(socket.socket(socket.AF_UNIX))
        busy.bind(str(path))
        busy.listen(0)
        for _ in range(10):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(path))
        with pytest.raises(SocketInUseError):
            bind_unix(path)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "d.sock").write_text("precious")
    with pytest.raises(OSError, match="in use"):
        bind_unix(tmp_path / "d.sock")
    assert (tmp_path / "d.sock").read_text() == "precious"
