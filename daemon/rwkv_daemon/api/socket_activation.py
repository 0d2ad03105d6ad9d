"""Sockets that the service manager opened for us (sd_listen_fds): clients queue in them while the daemon restarts."""

import os
import socket
from collections.abc import Mapping
from typing import Final

FIRST_DESCRIPTOR: Final = 3
"""SD_LISTEN_FDS_START: where passed descriptors begin."""


def listeners(variables: Mapping[str, str], pid: int | None = None) -> dict[str, list[socket.socket]]:
    """The listening sockets that were passed, by name (`FileDescriptorName=`; without one, `unknown`).

    Nothing was passed where LISTEN_PID names another process: the variables came down from a parent. What is no
    listening stream socket is closed. None of them is handed on to workers.
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
    """The descriptor as a socket that accepts, kept from our children; None, and closed, if it is none."""
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
    """The Unix socket among those that were passed, if there is one. Sockets over TCP are not taken: they carry no
    credentials."""
    every = [listener for listeners_of_name in passed.values() for listener in listeners_of_name]
    return next((listener for listener in every if listener.family == socket.AF_UNIX), None)
