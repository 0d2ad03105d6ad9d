"""A model on loopback that answers, stalls, refuses and lies as a test tells it to: a judge, or one behind an endpoint.

`in_thread` runs it for tests that are not async.
"""

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

PORT_S: Final = 60.0
"""How long a port may be somebody else's."""


@dataclass
class Asked:
    """One request as the server saw it."""

    at: float
    key: str
    document: dict[str, Any]
    number: int
    route: str = "/v1/chat/completions"
    answered_at: float | None = None
    """When it had been given a whole verdict; none if it was refused, cut off, or given up by who asked."""

    status: int = 0
    """What it is answered with, or would have been; 0 if it waits for that."""

    @property
    def prompt(self) -> str:
        if "prompt" in self.document:
            return str(self.document["prompt"])
        return "\n".join(message["content"] for message in self.document["messages"])


@dataclass
class Do:
    """What the server does with a request. `drip_s` sends the reply byte by byte; `cut` closes in its middle; `until`
    holds it back until something is so."""

    text: str = "True"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay_s: float = 0.0
    until: Callable[[], object] = lambda: True
    drip_s: float = 0.0
    cut: bool = False
    hang: bool = False
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10})
    finish: str = "stop"
    message: dict[str, Any] = field(default_factory=dict)
    """Further fields of a chat's message, such as a thought."""

    echoes: bool = True
    """Whether a prompt is echoed with its log-probabilities where that is asked for."""

    def bytes(self, asked: Asked) -> bytes:
        if self.body is not None:
            return self.body
        if self.status != 200:
            return json.dumps({"error": {"message": self.text, "code": None}}).encode()
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.finish}
        if asked.route.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": self.text} | self.message
        elif asked.document.get("echo") and self.echoes:
            choice |= {"text": asked.prompt + self.text, "logprobs": logprobs(asked.prompt, self.text)}
        else:
            choice["text"] = self.text
        choices = [choice] * asked.document.get("n", 1)
        return json.dumps({"model": "fake-judge-1", "choices": choices, "usage": self.usage}).encode()


def logprobs(prompt: str, text: str) -> dict[str, Any]:
    """The log-probabilities of a prompt cut into words with the blanks before them, and of one generated token. A
    token's is -0.1 for each of its characters; the likeliest token everywhere is one of -0.35."""
    tokens = [*re.findall(r"\s*\S+|\s+$", prompt), text]
    values = [-0.1 * len(token) for token in tokens]
    return {
        "tokens": tokens,
        "text_offset": [sum(map(len, tokens[:at])) for at in range(len(tokens))],
        "token_logprobs": [None, *values[1:]],
        "top_logprobs": [None, *({"best": max(value, -0.35)} for value in values[1:])],
    }


@dataclass
class FakeJudge:
    """`behave(asked)` decides what happens; `asked` are all requests, `open` the number in flight, `most` its
    maximum. When the server ends, a reply that is on its way is cut in its middle."""

    behave: Callable[[Asked], Do] = lambda _: Do()
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    open: int = 0
    most: int = 0
    connections: int = 0
    peers: set[int] = field(default_factory=set)
    """The ports of all whose connection was taken. They are taken in the order in which they were made."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompts(self) -> list[str]:
        return [asked.prompt for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.peers.add(writer.get_extra_info("peername")[1])
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while not writer.is_closing():
                    await self.one(reader, writer)
        finally:
            self.connections -= 1
            writer.close()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        route = head.split(" ")[1]
        assert re.match("POST /v1/(chat/)?completions ", head), head
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head.split("\r\n")[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        key = headers.get("authorization", "").removeprefix("Bearer ")
        asked = Asked(time.monotonic(), key, json.loads(body), len(self.asked), route)
        self.asked.append(asked)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            do = self.behave(asked)
            asked.status = do.status
            if await self.answer(do, asked, writer) and do.status == 200:
                asked.answered_at = time.monotonic()
        finally:
            self.open -= 1

    async def answer(self, do: Do, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Returns whether the reply was sent whole."""
        try:
            await self.wait(do)
        except asyncio.CancelledError:
            do = replace(do, cut=True)
        data = do.bytes(asked)
        lines = [f"HTTP/1.1 {do.status} Said", f"content-length: {len(data)}", "content-type: application/json"]
        lines += [f"{name}: {value}" for name, value in do.headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode()
        if do.cut:
            writer.write(head + data[: len(data) // 2])
            await writer.drain()
            writer.close()
        elif do.drip_s:
            writer.write(head)
            for byte in data:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(do.drip_s)
        else:
            writer.write(head + data)  # at once: whoever asked may be dead, and the second of two would fail
            await writer.drain()
        return not do.cut

    async def wait(self, do: Do) -> None:
        if do.hang:
            await asyncio.sleep(3600)
        await asyncio.sleep(do.delay_s)
        while not do.until():
            await asyncio.sleep(0.005)


async def listening(fake: FakeJudge) -> asyncio.Server:
    """Listen, at the port of before if there is one; somebody's connection may have it for a moment."""
    until = time.monotonic() + PORT_S
    while True:
        try:
            return await asyncio.start_server(fake.serve, "127.0.0.1", fake.port, limit=1 << 22)
        except OSError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def serving(fake: FakeJudge) -> AsyncIterator[FakeJudge]:
    server = await listening(fake)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()


@contextlib.contextmanager
def in_thread(fake: FakeJudge) -> Iterator[FakeJudge]:
    """Run the server in a thread and event loop of its own."""
    ready, done = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        async with serving(fake):
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(2 * PORT_S), f"the server does not listen on port {fake.port}"
    try:
        yield fake
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join(120)
