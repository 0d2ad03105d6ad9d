"""A program on a pty: when it shows something, what it costs, how many bytes it sends. Used by `bench/console.py`."""

import atexit
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import tempfile
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

TICKS = os.sysconf("SC_CLK_TCK")
UNWANTED = {"TMUX", "COLUMNS", "LINES", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"}
"""Environment variables that would change the program, which runs as if installed, on the terminal given here."""

PAGE = os.sysconf("SC_PAGE_SIZE")
CACHE = tempfile.mkdtemp(prefix="console-bench-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)


class Terminal:
    """A child on a terminal of some size. `rate` limits how fast the terminal takes bytes, as a slow line would."""

    def __init__(self, command: list[str], size: tuple[int, int] = (120, 36), rate: float = 0.0,
                 environ: dict[str, str] | None = None) -> None:  # fmt: skip
        self.rate, self.received, self.taken = rate, bytearray(), 0
        given = {
            name: text for name, text in os.environ.items() if name not in {"TMUX", "COLUMNS", "LINES", "NO_COLOR"}
        }
        given.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
        given |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPYCACHEPREFIX": CACHE} | (environ or {})
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            resize(0, size)
            os.execvpe(command[0], command, given)
        resize(self.fd, size)
        self.begun = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                break
            end = time.perf_counter() + 5
            while time.perf_counter() < end:
                self.read(0.05)
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    os.close(self.fd)
                    return
        os.close(self.fd)

    def read(self, wait_s: float) -> bytes:
        """Return what is sent within a time, at most at the rate of the line."""
        most = 65536
        if self.rate:
            most = int(min(4096, self.rate * (time.perf_counter() - self.begun) + 2000 - self.taken))
            if most <= 0:
                time.sleep(min(wait_s, 0.005))
                return b""
        if not select.select([self.fd], [], [], wait_s)[0]:
            return b""
        try:
            piece = os.read(self.fd, most)
        except OSError:
            return b""
        self.taken += len(piece)
        self.received += piece
        return piece

    def drain(self, for_s: float) -> int:
        """Read for a time. Returns how many bytes were sent."""
        before, end = self.taken, time.perf_counter() + for_s
        while (left := end - time.perf_counter()) > 0:
            self.read(min(0.05, left))
        return self.taken - before

    def until(self, pattern: str, timeout_s: float = 60.0, *, fresh: bool = False) -> float:
        """Read until the output matches a pattern (`fresh`: output from now on). Returns the seconds since the call."""
        start, search = time.perf_counter(), re.compile(pattern.encode()).search
        if fresh:
            self.received.clear()
        while time.perf_counter() < start + timeout_s:
            if search(self.received):
                return time.perf_counter() - start
            self.read(0.005)
        raise TimeoutError(f"{pattern!r} did not come; the last that did: {bytes(self.received[-300:])!r}")

    def keys(self, text: str) -> None:
        """Send keys to the program."""
        os.write(self.fd, text.encode())

    def cpu_s(self) -> float:
        """Return the processor seconds of the child."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss(self) -> int:
        """Return the resident memory of the child in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text(encoding="utf-8").split()[1]) * PAGE


def resize(fd: int, size: tuple[int, int]) -> None:
    """Set the size of a terminal to (columns, lines); its programs get SIGWINCH."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
