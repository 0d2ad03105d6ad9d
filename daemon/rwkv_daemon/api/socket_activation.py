"""Sockets that the service manager has opened (sd_listen_fds): clients queue in them while the daemon restarts."""

import os
import socket
from collections.abc import Mapping
from typing import Final

FIRST_DESCRIPTOR: Final = 3
"""SD_LISTEN_FDS_START: the first passed descriptor."""


def listeners(variables: Mapping[str, str], pid: int | None = None) -> dict[str, list[socket.socket]]:
    """Return the listening sockets that were passed, by name (`FileDescriptorName=`; without one, `unknown`).

    If LISTEN_PID names another process, the variables were inherited from a parent and nothing was passed. A descriptor
    that is no listening stream socket is closed. Workers do not inherit these sockets.
    """
    if variables.get("LISTEN_PID") != str(os.getpid() if pid is None else pid):
        return {}
    count = variables.get("LISTEN_FDS", "")
    names = variables.get("LISTEN_FDNAMES", "").split(":")
    found: dict[str, list[socket.socket]] = {}
    for number in range(int(count) if count.isdecimal() else 0):
        if (listener := listening(FIRST_DESCRIPTOR + number)) is not None:
            name = names[number] if number < len(names) and names[number] else "unknown"
            found.setdefault(name, []).append(listener)
    return found


def listening(descriptor: int) -> socket.socket | None:
    """Return a descriptor as a listening socket that children do not inherit; if it is none, close it and return
    None."""
    try:
        os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=descriptor)
    except OSError:
        return None
    if found.type != socket.SOCK_STREAM or not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        found.close()
        return None
    return found


def unix_listener(passed: Mapping[str, list[socket.socket]]) -> socket.socket | None:
    """Return the Unix socket among the passed ones, if there is one. TCP sockets are not used, as their clients have no
    credentials."""
    every = [listener for listeners_of_name in passed.values() for listener in listeners_of_name]
    return next((listener for listener in every if listener.family == socket.AF_UNIX), None)
