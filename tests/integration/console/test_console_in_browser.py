"""`rwkvctl tui --serve`: the console in a browser, as a client that speaks HTTP and the websocket sees it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from waiting import LIMIT_S, soon

from rwkvctl.http.browser_origin import names_loopback
from rwkvctl.tui.terminal.browser_server import MOST_CONSOLES, origin_is_ours


class Served:
    """The server as a process of its own."""

    def __init__(self, node: Any, *flags: str) -> None:
        words = [sys.executable, "-m", "rwkvctl.cli", "tui", "--serve", "--port", "0", *flags]
        self.process = subprocess.Popen(words, env=node.environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = [self.process.stdout.readline() for _ in range(3)]
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/\?token=(\S+)", self.said[0])
        assert found, self.said
        self.base, self.port, self.secret = found[1], found[2], found[3]
        self.address = found[0]

    def consoles(self) -> list[int]:
        """The processes of the consoles that are open."""
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [int(pid) for pid in children.split()]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def serve(measured: Any) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def make(*flags: str) -> Served:
        made.append(Served(measured, *flags))
        return made[-1]

    yield make
    for served in made:
        served.end()


@pytest.fixture(scope="module")
def reading(measured: Any) -> Iterator[Served]:
    """A server that only reads, for all tests that leave it as it is."""
    served = Served(measured)
    yield served
    served.end()


class Window:
    """A browser's window on a console: what it has been sent, and what is typed there."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket, self.text = socket, ""

    async def see(self, *words: str) -> None:
        """Wait until all of these words have come."""
        async with asyncio.timeout(LIMIT_S):
            while not all(word in self.text for word in words):
                message = await self.socket.receive()
                assert message.type in {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}, (message, self.text[-500:])
                data = message.data
                self.text += data.decode(errors="replace") if isinstance(data, bytes) else data

    async def type(self, keys: str, *words: str) -> None:
        """Press keys and wait for words."""
        self.text = ""
        await self.socket.send_json(["stdin", keys])
        await self.see(*words)


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


@asynccontextmanager
async def window(session: aiohttp.ClientSession, served: Served) -> AsyncIterator[Window]:
    async with session.ws_connect(f"{served.base}/ws?width=100&height=30", origin=served.base) as socket:
        yield Window(socket)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_the_page_and_the_socket_show_the_console_read_only(reading: Served) -> None:
    served = reading
    assert f"ssh -L {served.port}:127.0.0.1:{served.port} " in served.said[1]
    assert "read-only" in served.said[2]
    async with browser() as session:
        answer = await session.get(served.address)
        page = await answer.text()
        assert str(answer.url) == f"{served.base}/", "the secret is out of the address line"
        assert f'data-session-websocket-url="ws://127.0.0.1:{served.port}/ws"' in page
        assert "fonts.googleapis.com" not in page
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert (await session.get(f"{served.base}/static/js/textual.js")).status == 200
        async with window(session, served) as shown:
            await shown.see("Running 0", "Queue 1")
            await shown.type("5", "following")
            await shown.type("x", "read-only")
            await shown.type(",", "MiB resident")
            await shown.type("R", "read-only")
            shown.text = ""
            await shown.socket.send_json(["resize", {"width": 80, "height": 24}])
            await shown.see("Daemon", "settings")
            (console,) = served.consoles()
        await soon(lambda: not alive(console), "the console has ended")


async def test_strangers_other_names_and_other_pages_get_nothing(reading: Served) -> None:
    served = reading
    async with browser() as session:
        assert (await session.get(f"{served.base}/")).status == 403
        assert (await session.get(f"{served.base}/?token=wrong")).status == 403
        assert (await session.get(served.address, headers={"Host": f"evil.example:{served.port}"})).status == 403
        assert (await session.get(f"{served.base}/static/js/textual.js")).status == 403
        assert (await session.get(f"{served.base}/download/x")).status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(f"{served.base}/ws", origin=served.base)
        await session.get(served.address)
        for origin in ("http://evil.example", f"http://localhost:{served.port}", "null", None):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(f"{served.base}/ws", origin=origin)
        assert served.consoles() == []
        tunnelled = await session.get(f"{served.base}/", headers={"Host": "localhost:9999"})
        assert 'data-session-websocket-url="ws://localhost:9999/ws"' in await tunnelled.text()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
async def test_every_console_ends_with_the_terminal(serve: Any, number: int) -> None:
    served = serve()
    async with browser() as session:
        await session.get(served.address)
        async with window(session, served) as shown:
            await shown.see("Running 0")
            (console,) = served.consoles()
            os.kill(served.process.pid, number)
            await soon(lambda: served.process.poll() is not None, "the server has ended")
            await soon(lambda: not alive(console), "the console has ended")
    assert served.process.returncode == (-number if number == signal.SIGKILL else 0)


async def test_with_write_it_may_change_things_and_there_is_an_end_to_windows(serve: Any) -> None:
    served = serve("--write", "--theme", "light")
    assert "can act as you" in served.said[2]
    async with browser() as session:
        await session.get(served.address)
        async with window(session, served) as shown:
            await shown.see("Running 0")
            await shown.type(",", "MiB resident")
            await shown.type("R", "Reload the configuration?")
            await shown.type("\x1b", "resident")
            more = [await session.ws_connect(f"{served.base}/ws", origin=served.base) for _ in range(MOST_CONSOLES - 1)]
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await session.ws_connect(f"{served.base}/ws", origin=served.base)
            for socket in more:
                await socket.close()
        await soon(lambda: not served.consoles(), "every console has ended")


def test_a_port_that_is_taken_is_said_in_a_sentence(reading: Served, measured: Any) -> None:
    done = measured.cli("tui", "--serve", "--port", reading.port, check=False)
    assert done.returncode == 1
    assert f"port {reading.port} cannot be used" in done.stderr


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1:8321", True), ("localhost", True), ("[::1]:80", True), ("LOCALHOST:1", True), ("evil.example", False),
     ("127.0.0.1.evil.example:8321", False), ("localhost@evil.example", False), ("", False), ("[::1", False)],
)  # fmt: skip
def test_only_names_of_the_loopback_are_ours(host: str, ours: bool) -> None:
    assert names_loopback(host) is ours


def test_only_a_page_of_the_same_name_and_port_is_ours() -> None:
    assert origin_is_ours("http://127.0.0.1:8321", "127.0.0.1:8321")
    assert not origin_is_ours("https://127.0.0.1:8321", "127.0.0.1:8321")
    assert not origin_is_ours("http://localhost:8321", "127.0.0.1:8321")
    assert not origin_is_ours("", "127.0.0.1:8321")
