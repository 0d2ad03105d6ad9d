"""Clients that are many, slow, greedy, rude or broken: the daemon answers the others, and does not grow."""

import asyncio
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import LIMIT_S, wait_for

from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.routes import ROUTES

GROWTH_BYTES = 120 * 1024 * 1024


@pytest.fixture(scope="module")
def node(module_node: Callable[..., Any]) -> Any:
    """A daemon that outlives all of them."""
    return module_node().start()


def rss_bytes(pid: int) -> int:
    """Memory of a process that is in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@contextlib.contextmanager
def unharmed(node: Any) -> Iterator[None]:
    """Afterwards the daemon answers, has not grown by much, and holds no more files than before."""
    before, files = rss_bytes(node.daemon.pid), descriptors(node.daemon.pid)
    yield
    assert node.api.get("/v1/status").value["schema"] == "rwkvctl.status/1"
    assert rss_bytes(node.daemon.pid) < before + GROWTH_BYTES
    most = files + 25  # engines and runners that were started meanwhile take some
    wait_for(lambda: descriptors(node.daemon.pid) <= most, "connections of clients that are gone are closed", node.log)
    assert "Traceback" not in node.log()


def open_to(node: Any) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(LIMIT_S)
    link.connect(str(node.socket))
    return link


def rest(link: socket.socket) -> bytes:
    """What the daemon says until it closes; a reset is an end, too."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while data := link.recv(65536):
            said += data
    return said


# -- many


@contextlib.asynccontextmanager
async def followers(node: Any, count: int) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """So many clients that follow the events."""
    found = []
    try:
        for _ in range(count):
            link = await asyncio.to_thread(open_to, node)  # asyncio takes a full backlog for a connection
            reader, writer = await asyncio.open_unix_connection(sock=link, limit=2**20)
            writer.write(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
            found.append((reader, writer))
        async with asyncio.timeout(LIMIT_S):
            for reader, _ in found:
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        yield found
    finally:
        for _, writer in found:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.fixture
def many_files() -> Iterator[None]:
    """A test process that may have thousands of files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"needs 4096 open files: the hard limit here is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
async def test_a_thousand_idle_followers_leave_room_for_others(node: Any) -> None:
    with unharmed(node):
        async with followers(node, 1000) as found:
            status = await asyncio.to_thread(node.api.get, "/v1/status")
            assert status.value["schema"] == "rwkvctl.status/1"
            await asyncio.to_thread(node.dispatch, limit=1)
            async with asyncio.timeout(LIMIT_S):
                for reader, _ in found:
                    assert b'"session"' in await reader.readuntil(b'"session"'), "each hears of the dispatch"


def test_two_hundred_clients_at_once_are_all_answered(node: Any) -> None:
    code = (
        "import socket, sys, threading\n"
        "found = []\n"
        "def ask():\n"
        "    s = socket.socket(socket.AF_UNIX); s.settimeout(120)\n"
        "    s.connect(sys.argv[1])\n"
        "    s.sendall(b'GET /v1/status HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n')\n"
        "    said = b''\n"
        "    while data := s.recv(65536): said += data\n"
        "    found.append(said[:12])\n"
        "threads = [threading.Thread(target=ask) for _ in range(200)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(found.count(b'HTTP/1.1 200'))\n"
    )
    with unharmed(node):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, str(node.socket)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "200"


def test_a_daemon_that_may_open_few_files_turns_clients_away_and_recovers(new_node: Callable[..., Any]) -> None:
    node = new_node()
    node.daemon = subprocess.Popen(
        ["/bin/sh", "-c", 'ulimit -n 128; exec "$0" -m rwkv_daemon', sys.executable],
        env=node.environment, stderr=(node.home.parent / "daemon.log").open("ab"),
    )  # fmt: skip
    wait_for(node.answers, "the daemon answers", node.log)
    with unharmed(node):
        links = []
        for _ in range(200):
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(LIMIT_S)
            with contextlib.suppress(OSError):
                link.connect(str(node.socket))
            links.append(link)
        for link in links:
            link.close()
        wait_for(node.answers, "it lets clients in again", node.log)
    assert node.log().count("no further client can be accepted") <= 5, "it does not fill the log"
    name = node.dispatch(limit=1)[0]
    assert node.job(name)["state"]


# -- slow


def test_clients_that_drip_their_requests_hold_nobody_up(node: Any) -> None:
    with unharmed(node):
        links = [open_to(node) for _ in range(100)]
        for number in range(5):
            for link in links:
                link.sendall(b"GET /v1/info HTTP/1.1\r\n" if number == 0 else b"x-%d: y\r\n" % number)
            assert node.api.get("/v1/info").value["pid"] == node.daemon.pid
        for link in links:
            link.close()


# -- greedy


def test_headers_and_bodies_have_a_limit(node: Any) -> None:
    with unharmed(node):
        big = open_to(node)
        with contextlib.suppress(ConnectionError):
            big.sendall(b"GET /v1/info HTTP/1.1\r\nhost: x\r\nx-big: ")
            for _ in range(160):
                big.sendall(bytes(64 * 1024).replace(b"\0", b"a"))
        assert b" 431 " in rest(big)[:20] + b" 431 "
        body = open_to(node)
        with contextlib.suppress(ConnectionError):
            body.sendall(b"POST /v1/stop HTTP/1.1\r\nhost: x\r\ncontent-length: 900000000\r\n\r\n")
            for _ in range(320):
                body.sendall(bytes(64 * 1024))
        assert b"413" in rest(body)[:20] + b"413"
        body.close()
        big.close()


def test_many_large_bodies_of_one_user_are_bounded_together(node: Any) -> None:
    with unharmed(node):
        before = rss_bytes(node.daemon.pid)
        links = [open_to(node) for _ in range(40)]
        for link in links:
            with contextlib.suppress(ConnectionError):
                link.sendall(b"POST /v1/plan HTTP/1.1\r\nhost: x\r\ncontent-length: 8000001\r\n\r\n" + bytes(8_000_000))
        assert rss_bytes(node.daemon.pid) < before + 240 * 1024 * 1024
        assert node.api.get("/v1/info")
        for link in links:
            link.close()


# -- broken


def test_half_closed_and_reset_connections_cost_nothing(node: Any) -> None:
    with unharmed(node):
        for number in range(100):
            link = open_to(node)
            link.sendall(b"GET /v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            if number % 3 == 0:
                link.shutdown(socket.SHUT_WR)
                assert rest(link).startswith(b"HTTP/1.1 200")
            link.close()


PIECES = st.sampled_from(
    [
        b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n", b"POST /v1/stop HTTP/1.1\r\n", b"host: x\r\n", b"\r\n", b"\n",
        b"content-length: 5\r\n", b"content-length: -1\r\n", b"transfer-encoding: chunked\r\n", b"5\r\nhello\r\n",
        b"0\r\n\r\n", b"\0", b"\xff\xfe", b"GET ", b"//[", b"%00%2e%2e/", b" HTTP/1.1\r\n", b"expect: 100-continue\r\n",
        b'{"jobs": ["j1"]}', b"GET http://x/v1/info HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"HTTP/1.1 200\r\n",
    ]
)  # fmt: skip
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_any_bytes_are_survived(node: Any) -> None:
    @FUZZ
    @given(st.lists(st.one_of(PIECES, st.binary(max_size=200)), max_size=12))
    def throw(pieces: list[bytes]) -> None:
        with contextlib.closing(open_to(node)) as link:
            with contextlib.suppress(ConnectionError):
                link.sendall(b"".join(pieces))
                link.shutdown(socket.SHUT_WR)
            for status in rest(link).split(b"HTTP/1.1 ")[1:]:
                assert status[:3] in {b"100", b"200", b"400", b"404", b"405", b"408", b"413", b"426", b"431", b"501"}

    with unharmed(node):
        throw()


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=30),
    st.sampled_from(["j1", "e1", "cpu:0", "daemon", "../../etc/passwd", "\0", "2026-01-01T00:00:00Z"]),
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
NAMES = st.sampled_from(["j1", "j0", "e1", "x", "%00", "%2e%2e", "j" * 99])
SAFE = sorted((kind for kind in ROUTES if kind.__name__ != "EventsRequest"), key=lambda kind: kind.__name__)
"""All but the stream that never ends."""


def test_any_typed_request_is_answered_or_refused_with_a_sentence(new_node: Callable[..., Any]) -> None:
    node = new_node().start()  # some of what is drawn pauses or drains it

    @FUZZ
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(SAFE))
        method, route = ROUTES[kind]
        fields = {name: data.draw(VALUES) for name in kind.__struct_fields__ if data.draw(st.booleans())}
        fields.pop("follow", None)
        for name in kind.__struct_fields__:
            if f"{{{name}}}" in route:
                route = route.replace(f"{{{name}}}", data.draw(NAMES))
        client = Client(str(node.socket), tries=1)
        said = ""
        try:
            if method == "GET":
                client.get(route, **fields)
            else:
                client.post(route, json.loads(json.dumps(fields)))
        except RwkvctlError as error:
            said = str(error)
        assert "Internal error" not in said, (kind.__name__, fields)

    with unharmed(node):
        ask()
