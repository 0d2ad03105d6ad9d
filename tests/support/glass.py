"""A terminal on which a command line runs in this process: what is written reaches a real pty, byte by byte."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIZE = (40, 100)
"""Lines and columns."""


class Glass:
    """What a terminal was sent."""

    def __init__(self) -> None:
        self.sent = b""

    @property
    def text(self) -> str:
        """The same as text; what is no UTF-8 is kept as surrogates."""
        return self.sent.decode(errors="surrogateescape")


@contextmanager
def on_a_terminal(monkeypatch: Any, typed: str = "") -> Iterator[Glass]:
    """Make a pty the standard streams until the block ends; `typed` waits to be read. Nothing is echoed or changed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    os.write(master, typed.encode())
    glass = Glass()
    reader = threading.Thread(target=read, args=(master, glass))
    reader.start()
    streams = [open(os.dup(slave), kind, encoding="utf-8", errors="backslashreplace") for kind in "rww"]  # noqa: PTH123, SIM115
    os.close(slave)
    try:
        with monkeypatch.context() as patched:
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patched.setattr(sys, name, stream)
            yield glass
    finally:
        for stream in streams:
            stream.close()
        reader.join(120)
        os.close(master)


def read(master: int, glass: Glass) -> None:
    """Read until nobody has the terminal open any more."""
    while True:
        try:
            glass.sent += os.read(master, 65536)
        except OSError:
            return
