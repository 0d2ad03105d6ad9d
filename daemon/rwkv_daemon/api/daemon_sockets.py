"""The sockets the daemon listens on: its Unix socket, and TCP where the operator wants it."""

import asyncio
import contextlib
import ssl
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

from rwkv_daemon.api import tls_tokens
from rwkv_daemon.api.authentication import Authenticator, TokenAuthenticator, UnixAuthenticator
from rwkv_daemon.api.request_server import http_server
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.host.socket_folder import NO_ROOM, group_number, make_folder
from rwkv_daemon.node import Node
from rwkvctl.http.listeners import Listening, SocketInUseError, bind_unix
from rwkvctl.http.peer_credentials import OWN_SUFFIX
from rwkvctl.http.server import Server
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.config import Config

LOOK_S, AGAIN_S = 1.0, 5.0
Bind = Callable[[Config, Path], socket]


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket (None while it cannot be bound for want of room), the authenticator of its clients, and its TLS
    context. `given`: the service manager passed it. A socket at a `path` is bound again by `bind` if its file is
    deleted."""

    socket: socket | None
    authenticator: Authenticator
    tls: ssl.SSLContext | None = None
    given: bool = False
    path: Path | None = None
    bind: Bind = field(default=lambda _, path: bind_unix(path))


def open_all(node: Node, given: socket | None) -> Sequence[Listener]:
    """Open every socket of the settings; `given` is the Unix socket that the service manager passed. Raises
    ConfigError, SocketInUseError, OSError."""
    settings = node.records.config
    path = Path(given.getsockname()) if given is not None and is_named(given) else settings.socket
    bound = given or unless_no_room(settings)
    found = [Listener(bound, UnixAuthenticator(node), given=given is not None, path=path, bind=unix_socket)]
    if settings.settings.socket_group:
        own = own_path(settings)
        found.append(Listener(own_socket(own), UnixAuthenticator(node), path=own))
    if (opened := tls_tokens.listener(settings.settings)) is not None:
        found.append(Listener(opened[0], TokenAuthenticator(node), opened[1]))
    return found


def is_named(given: socket) -> bool:
    """Whether a socket is bound to a path."""
    name = given.getsockname()
    return isinstance(name, str) and name.startswith("/")


def unless_no_room(config: Config) -> socket | None:
    """Return the daemon's Unix socket; None if its file system has no room for it now. Raises ConfigError, OSError."""
    try:
        return unix_socket(config, config.socket)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        log.error("%s cannot be made (%s): nobody can reach the daemon yet", config.socket, error.strerror)
        return None


def unix_socket(config: Config, path: Path) -> socket:
    """Bind a Unix socket that is open to the socket's group, if one is set. Raises ConfigError."""
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
    """Return the path of the socket for root and the daemon's user alone."""
    return config.socket.with_name(config.socket.name + OWN_SUFFIX)


def own_socket(path: Path) -> socket | None:
    """Bind a second socket beside the group's, for root and the daemon's user alone, who use it when members of the
    group have filled the first one. Raises SocketInUseError."""
    try:
        return bind_unix(path)
    except OSError as error:
        log.warning("no socket for root and the daemon's user alone: %s cannot be made (%s)", path, error)
        return None


@contextlib.asynccontextmanager
async def served(node: Node, listeners: Sequence[Listener]) -> AsyncIterator[None]:
    """Answer on every socket. Each has limits of its own, so clients over TCP take no place of the Unix socket."""
    async with contextlib.AsyncExitStack() as undo:
        for listener in listeners:
            api = http_server(node, listener.authenticator, over_tls=listener.tls is not None)
            undo.push_async_callback(api.close)
            if listener.path is not None:
                keeper = SocketKeeper(node, api, listener)
                undo.callback(keeper.close)
                await keeper.listen(listener.socket)
                undo.callback(asyncio.ensure_future(keeper.keep()).cancel)
            elif listener.socket is not None:
                undo.callback((await api.start(listener.socket, listener.tls)).close)
            log.info("listening on %s", listener.socket.getsockname() if listener.socket else "nothing yet")
        yield


@dataclass(slots=True)
class SocketKeeper:
    """Binds a Unix socket again if its file is deleted; open connections stay.

    If the service manager passed the socket (`given`), it cannot be told that the file is gone, so a socket of our own
    takes its place.
    """

    node: Node
    api: Server
    listener: Listener
    listening: Listening | None = None
    identity: tuple[int, int] | None = None
    ours: bool = False
    """Whether the socket is our own, in place of the service manager's."""

    trouble: str = ""

    @property
    def path(self) -> Path:
        assert self.listener.path is not None
        return self.listener.path

    async def listen(self, bound: socket | None) -> None:
        """Accept clients of a socket that is bound to the path."""
        before, self.identity = self.listening, identity_of(self.path)
        self.ours = bound is not None and not (self.listener.given and before is None)
        if bound is not None:
            self.listening = await self.api.start(bound)
        if before is not None:
            await asyncio.sleep(0)  # clients in the backlog of the old socket are accepted first
            before.close()

    async def keep(self) -> None:
        """Check once a second, until cancelled, that the socket is still at its path, and bind a new one if it is
        not."""
        while True:
            await asyncio.sleep(AGAIN_S if self.trouble else LOOK_S)
            try:
                there = await asyncio.to_thread(identity_of, self.path)
                if self.listening is None or there is None or there != self.identity:
                    await self._again()
            except (OSError, ConfigError, SocketInUseError) as error:
                if str(error) != self.trouble:
                    log.error("nobody can reach the daemon at %s: %s; it tries again", self.path, error)
                self.trouble = str(error)

    async def _again(self) -> None:
        lost = self.listening is not None
        if self.path.parent == self.node.records.config.socket.parent:
            make_folder(self.node.records.config)
        await self.listen(self.listener.bind(self.node.records.config, self.path))
        self.trouble = ""
        if not lost:
            log.warning("there is room again: listening on %s", self.path)
            return
        text = f"{self.path} was deleted; the daemon has made it again"
        if self.listener.given:
            text += (
                ", as a socket of its own in the place of the service manager's: `systemctl restart rwkvctl.socket "
                "rwkvctl` puts that back, running work is not touched"
            )
            self.node.records.notes = [*(note for note in self.node.records.notes if note != text), text]
        log.warning("%s", text)

    def close(self) -> None:
        """Stop accepting clients, and remove the socket file if it is ours."""
        if self.listening is not None:
            self.listening.close()
        if self.ours and self.identity is not None and identity_of(self.path) == self.identity:
            self.path.unlink(missing_ok=True)


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return (device, inode) of a socket file; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
