"""Showing files to the daemon, which reads for its users only what they can read themselves: the files are opened here,
and their descriptors passed over a socket beside the daemon's. Standard library only, as the client is."""

import os
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import Final

from rwkvctl.cli.client import Client, Record
from rwkvctl.http.peer_credentials import peer_of
from rwkvctl.protocol.errors import UnreachableError
from rwkvctl.protocol.showing import MOST_AT_ONCE, TAKEN, socket_beside

ANSWER_S: Final = 10.0

# ruff: noqa: PTH118
# pathlib would double the start-up of every verb


def show_selected(client: Client, selection: Record) -> None:
    """The checkpoints that a selection names by path."""
    show(client, [one["path"] for name in ("files", "checkpoints") for one in selection.get(name, ())])


def show(client: Client, paths: Sequence[str]) -> None:
    """Show the client's daemon all that can be opened at these paths, folders with what lies in them. A daemon of our
    own user needs none of it, and one that takes no descriptors will say what it misses."""
    if not paths or client.remote or os.getuid() == 0:
        return
    door = FilesClient(socket_beside(client.path), ANSWER_S, service_user=client.service_user)
    with suppress(OSError, UnreachableError), closing(door.opened()) as link:
        peer = peer_of(link)
        if peer is not None and peer.uid != os.getuid():
            everything = opened(file for path in paths for file in files_at(path))
            while batch := list(islice(everything, MOST_AT_ONCE)):
                pass_on(link, batch)


class FilesClient(Client):
    """The client with its check of the server's user, for the socket that takes files."""

    def opened(self) -> socket.socket:
        """A connection. Raises OSError, UnreachableError, and RefusedError for a stranger's."""
        return self._connected(self.timeout_s)


def pass_on(link: socket.socket, descriptors: list[int]) -> None:
    """Send descriptors, close ours, and wait until the daemon has looked at them. Raises OSError."""
    try:
        socket.send_fds(link, [TAKEN], descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    if link.recv(1) != TAKEN:
        raise ConnectionError("the daemon accepts no more files at the moment")


def files_at(path: str) -> Iterator[str]:
    """A file; a folder and everything under it. Links below it are not followed."""
    yield path
    for folder, _, names in os.walk(path):
        if folder != path:
            yield folder
        yield from (os.path.join(folder, name) for name in names)


def opened(paths: Iterable[str]) -> Iterator[int]:
    """Descriptors of those plain files and folders that can be opened; a pipe is not waited for."""
    for path in paths:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                yield descriptor
            else:
                os.close(descriptor)
