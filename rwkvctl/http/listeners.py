"""Listening sockets: a Unix socket is private from the moment it is bound, and clients are accepted in batches."""

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BACKLOG: Final = 1024
"""Clients that may wait to be accepted; beyond that, `connect` itself waits, or fails with EAGAIN."""
AT_ONCE: Final = 64
"""Clients that are accepted in a row before connected ones are served again."""
PAUSE_S: Final = 0.2
SAID_AGAIN: Final = 300
"""Pauses (a minute) between two log lines that no client can be accepted."""

log = logging.getLogger("rwkvctl")


class SocketInUseError(Exception):
    """Another process answers on the socket path."""


def bind_unix(path: Path, group: int | None = None) -> socket.socket:
    """Return a listening Unix socket at `path`, private to its owner from the first instant, and then also open to
    `group` if one is given; a stale file is removed. Raises OSError, SocketInUseError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        if group is not None:
            os.chown(path, -1, group, follow_symlinks=False)
            path.chmod(0o660)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket; port 0 takes a free one. Raises OSError for an address that is not ours or is
    taken."""
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


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket whose clients are accepted until it is closed."""

    listener: socket.socket
    task: asyncio.Task[None]

    def close(self) -> None:
        """Stop accepting clients. The socket itself is closed once the accepting task has ended."""
        self.task.cancel()
        self.task.add_done_callback(lambda _: self.listener.close())


def listen(listener: socket.socket, welcome: Callable[[socket.socket], None]) -> Listening:
    """Accept clients of a bound socket in a task of its own, and pass each to `welcome`."""
    listener.setblocking(False)
    return Listening(listener, asyncio.ensure_future(accept_all(listener, welcome)))


async def accept_all(listener: socket.socket, welcome: Callable[[socket.socket], None]) -> None:
    """Accept clients for ever. While the process has no free file descriptors, clients wait in the socket's backlog.

    asyncio's own servers accept up to a hundred at a time, and log an error for each that cannot be accepted.
    """
    loop = asyncio.get_running_loop()
    pauses = 0
    while True:
        try:
            client, _ = await loop.sock_accept(listener)
        except ConnectionError:  # the client left before it was accepted
            continue
        except OSError as error:  # EMFILE, mostly
            if pauses % SAID_AGAIN == 0:
                log.warning("no further client can be accepted (%s); new clients wait", error.strerror)
            pauses += 1
            await asyncio.sleep(PAUSE_S)
            continue
        pauses = 0
        welcome(client)
        for _ in range(AT_ONCE - 1):
            try:
                client, _ = listener.accept()
            except OSError:  # no client is left; any other error is handled above
                break
            welcome(client)
        await asyncio.sleep(0)  # connected clients are served between two batches
