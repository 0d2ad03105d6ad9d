"""The websocket of `tui --serve`: messages and frames that no page of ours sends."""

import base64
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from live_node import LiveNode
from mutate import mutated
from waiting import LIMIT_S, wait_for

MESSAGES = (
    ["stdin", "j"],
    ["stdin", "\x1b[A"],
    ["resize", {"width": 80, "height": 24}],
    ["ping", 1],
    ["blur"],
    ["focus"],
    ["resize", {"width": 10**9, "height": 10**9}],
    ["resize", {"width": -1, "height": 0}],
    ["stdin", None],
    ["stdin"],
    [],
    {},
    ["nothing", 1],
    ["resize", []],
    ["stdin", "x" * 100_000],
    "stdin",
    None,
)
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


class Page:
    """The server as a process, and connections to it."""

    def __init__(self, node: LiveNode) -> None:
        words = [sys.executable, "-m", "rwkvctl.cli", "tui", "--serve", "--port", "0"]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it ends with the page
        self.process = subprocess.Popen(
            words, env=node.environment, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", self.process.stdout.readline())
        assert found
        self.port, self.secret = int(found[1]), found[2]

    def ask(self, target: str, *headers: str) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        lines = [f"GET {target} HTTP/1.1", f"host: 127.0.0.1:{self.port}"]
        lines += [f"cookie: rwkvctl-{self.port}={self.secret}", *headers]
        link.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return link

    def window(self, query: str = "") -> socket.socket:
        key = base64.b64encode(os.urandom(16)).decode()
        headers = [
            "upgrade: websocket",
            "connection: upgrade",
            f"sec-websocket-key: {key}",
            "sec-websocket-version: 13",
        ]
        return self.ask(f"/ws{query}", *headers, f"origin: http://127.0.0.1:{self.port}")

    def consoles(self) -> int:
        pid = self.process.pid
        return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    def log(self) -> str:
        self.errors.flush()
        with open(f"/proc/self/fd/{self.errors.fileno()}", errors="replace") as file:  # noqa: PTH123 - it has no name
            return file.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()


def frame(draw: random.Random, kind: int, payload: bytes) -> bytes:
    """A frame of a client, masked."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    mask = draw.randbytes(4)
    return bytes([0x80 | kind]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def said(draw: random.Random) -> bytes:
    """A few frames; some are not whole, or not what they say."""
    found = b""
    for _ in range(draw.randint(1, 4)):
        message: Any = draw.choice(MESSAGES)
        payload = json.dumps(message).encode()
        if draw.random() < 0.5:
            payload = mutated(draw, payload)
        one = frame(draw, draw.choice((TEXT, TEXT, TEXT, BINARY, PING)), payload[:120_000])
        found += mutated(draw, one, within=(0, 12)) if draw.random() < 0.2 else one
    return found


def fuzz(node: LiveNode, draw: random.Random, rounds: int) -> Iterator[str]:
    """Each round is a window with a console of its own, so there are few."""
    page = Page(node)
    try:
        for _ in range(rounds):
            data = said(draw)
            query = mutated(draw, b"?width=80&height=24").decode("latin-1") if draw.random() < 0.2 else ""
            with page.window(re.sub(r"[^!-~]", "9", query)) as link, contextlib.suppress(OSError):
                link.sendall(data + frame(draw, CLOSE, b"\x03\xe8"))
                try:
                    while link.recv(65536):
                        pass
                except TimeoutError:
                    yield f"the websocket hangs after {data!r}"
            if page.process.poll() is not None:
                yield f"tui --serve ended with {page.process.returncode} after {data!r}: {page.log()[-2000:]}"
                return
        wait_for(lambda: page.consoles() == 0, "every console has ended", page.log)
        with page.ask("/", "connection: close") as link:
            if not link.recv(65536).startswith(b"HTTP/1.1 200"):
                yield "tui --serve does not answer a good request afterwards"
        log = page.log()
        if "Traceback" in log:
            yield f"tui --serve prints a traceback: {log[log.index('Traceback') - 200 :][:3000]}"
    finally:
        page.close()
