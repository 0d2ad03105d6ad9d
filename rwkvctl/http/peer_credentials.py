"""The process at the other end of a Unix socket, as the kernel reports it; used by the daemon and by its clients."""

import contextlib
import socket
import struct
from typing import Final, NamedTuple

SO_PEERGROUPS: Final = 59
GROUPS_BYTES: Final = 1024  # the most that Python asks for
OWN_SUFFIX: Final = ".own"
"""Suffix of a second socket beside one that a group may use: for its owner and root alone, so the group cannot fill
it."""


class Peer(NamedTuple):
    """A process and its rights when it connected (or began to listen): SO_PEERCRED and SO_PEERGROUPS."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def peer_of(sock: socket.socket) -> Peer | None:
    """Return the credentials of a Unix socket's other end; None over TCP."""
    if sock.family != socket.AF_UNIX:
        return None
    pid, uid, gid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Peer(pid, uid, gid, groups_of(sock))


def network_of(address: str) -> str:
    """Return what counts as one client over TCP: an IPv4 address, or the /64 network that one IPv6 customer gets."""
    import ipaddress  # only a server needs it, and the command line starts with this module

    found = ipaddress.ip_address(address.partition("%")[0])
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def groups_of(sock: socket.socket) -> tuple[int, ...]:
    """Return the other end's supplementary groups; none if the kernel does not report them, or there are more than
    256."""
    with contextlib.suppress(OSError):
        found = sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES)
        return struct.unpack(f"{len(found) // 4}I", found)
    return ()


def connect(link: socket.socket, path: str) -> None:
    """Connect to a daemon's socket; if that is full, to the one for its owner and root. Raises OSError, as
    BlockingIOError if there is no place."""
    try:
        link.connect(path)
    except BlockingIOError:
        try:
            link.connect(path + OWN_SUFFIX)
        except OSError:
            pass
        else:
            return
        raise
