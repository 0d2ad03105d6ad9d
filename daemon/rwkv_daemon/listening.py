"""The sockets the daemon listens on: its Unix socket, and TCP where the operator wants it."""

import contextlib
import grp
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from rwkv_daemon import tcp
from rwkv_daemon.doors import Door, TokenDoor, UnixDoor
from rwkv_daemon.node import Node, log
from rwkv_daemon.server import server
from rwkvctl.config import Config
from rwkvctl.peers import OWN_DOOR
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.sockets import bind_unix


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket, how one speaks on it, and how its clients are known."""

    socket: socket
    door: Door
    tls: ssl.SSLContext | None = None


def open_all(node: Node, given: socket | None) -> Sequence[Listener]:
    """Every socket of the settings; `given` is the Unix socket that the service manager passed. Raises ConfigError,
    SocketInUseError, OSError."""
    found = [Listener(given or unix_socket(node.config, node.config.socket), UnixDoor(node))]
    if (own := own_socket(node.config)) is not None:
        found.append(Listener(own, UnixDoor(node)))
    if (opened := tcp.door(node.config.settings)) is not None:
        found.append(Listener(opened[0], TokenDoor(node), opened[1]))
    return found


def unix_socket(config: Config, path: Path) -> socket:
    """A socket of the daemon's, open to its group if it has one. Raises ConfigError."""
    name = config.settings.socket_group
    if not name:
        return bind_unix(path)
    try:
        return bind_unix(path, group_number(name))
    except PermissionError as error:
        raise ConfigError(
            f"socket_group: {path} cannot be given to the group {name}: the daemon's user is no member of it. "
            f"Run `usermod -aG {name} USER`, or leave socket_group empty."
        ) from error


def own_path(config: Config) -> Path:
    """Where the socket lies that is not open to the group."""
    return config.socket.with_name(config.socket.name + OWN_DOOR)


def own_socket(config: Config) -> socket | None:
    """A socket beside that of a group, for root and the daemon's user alone: clients go there when members of the group
    have filled the other one. Raises SocketInUseError."""
    if not config.settings.socket_group:
        return None
    try:
        return bind_unix(own_path(config))
    except OSError as error:
        log.warning("no socket for root and the daemon's user alone: %s cannot be made (%s)", own_path(config), error)
        return None


def group_number(name: str) -> int:
    """A group by its name or number. Raises ConfigError."""
    if name.isdecimal() and name.isascii():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(f"socket_group: there is no group {name}; make it with `groupadd -r {name}`.") from None


def make_folder(config: Config) -> None:
    """The folder of the sockets: ours alone, but that the socket's group may pass through one that we make. Raises
    ConfigError, OSError."""
    if config.is_remote:
        raise ConfigError("socket: https:// is for clients; the daemon listens on a path, and on listen_tcp besides.")
    folder, name = config.socket.parent, config.settings.socket_group
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        check_private(folder)
    else:
        if name:
            with contextlib.suppress(PermissionError):  # which binding will say better
                os.chown(folder, -1, group_number(name))
                folder.chmod(0o710)
    found = folder.stat()
    if name and not found.st_mode & 0o001 and not (found.st_gid == group_number(name) and found.st_mode & 0o010):
        remedy = f"chgrp {name} {folder} && chmod 710 {folder}"
        log.warning("the group %s cannot get at the socket in %s: run `%s`", name, folder, remedy)


def check_private(folder: Path) -> None:
    """In a folder that somebody else owns or can write to, they could put their socket in our place. Raises
    ConfigError."""
    found, named = folder.stat(), folder.lstat()  # a link of somebody's to a folder of ours is theirs to turn
    if not {found.st_uid, named.st_uid} <= {os.geteuid(), 0} or found.st_mode & 0o022:
        raise ConfigError(f"{folder} belongs to another user or can be written by others; remove it, or set --socket.")


@contextlib.asynccontextmanager
async def served(node: Node, listeners: Sequence[Listener]) -> AsyncIterator[None]:
    """Answer on every socket, each with limits of its own: strangers over TCP leave the Unix socket its room."""
    async with contextlib.AsyncExitStack() as undo:
        for listener in listeners:
            api = server(node, listener.door, over_tls=listener.tls is not None)
            undo.push_async_callback(api.close)
            undo.callback((await api.start(listener.socket, listener.tls)).close)
            log.info("listening on %s", listener.socket.getsockname())
        yield
