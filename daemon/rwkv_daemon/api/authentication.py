"""Who a client is: over the Unix socket by the kernel's credentials, over TCP by its token."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Protocol

from rwkv_daemon.api import grants, tls_tokens
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.node import Node
from rwkv_daemon.rules.roles import Actor, Role
from rwkvctl.http.server import Request
from rwkvctl.protocol.errors import ConfigError, Exit, RefusedError
from rwkvctl.settings import config

NO_UID: Final = -1


@dataclass(frozen=True, slots=True)
class ApiClient:
    """An authenticated client and its role. Limits count per `who`."""

    actor: Actor
    role: Role
    who: Hashable


class Authenticator(Protocol):
    """Identifies the clients of one socket, Unix or TCP, or refuses them."""

    def check(self, request: Request) -> None:
        """Check the client before the body of its request is read. Raises RefusedError if it is not known."""

    async def client(self, request: Request) -> ApiClient:
        """Return the client that sent the request. Raises RefusedError if it is not known."""


@dataclass(frozen=True, slots=True)
class UnixAuthenticator:
    """Identifies clients of the Unix socket by the uid that the kernel reports."""

    node: Node

    def check(self, request: Request) -> None:
        """Accept every client: the mode of the socket file has already decided who may connect."""

    async def client(self, request: Request) -> ApiClient:
        peer = request.peer
        assert peer is not None
        name = grants.KNOWN.get(peer.uid)
        if name is None:
            name = await asyncio.to_thread(grants.user_name, peer.uid)
        return ApiClient(Actor(peer.uid, peer.gid, peer.pid, name), self.node.request_state.grants.role(peer), peer.uid)


@dataclass(slots=True)
class TokenAuthenticator:
    """Identifies clients over TCP by their tokens. The token file is read again whenever it has changed, so a token is
    valid as long as its line is in the file."""

    node: Node
    tokens: tuple[tls_tokens.Token, ...] = ()
    read: tuple[int, int, int] | None = None
    trouble: str = field(default="")

    def check(self, request: Request) -> None:
        self.token(request)

    async def client(self, request: Request) -> ApiClient:
        token = self.token(request)
        return ApiClient(Actor(NO_UID, NO_UID, 0, token.name), token.role, token.name)

    def token(self, request: Request) -> tls_tokens.Token:
        """Return the token that a request carries. Raises RefusedError if it carries no valid one."""
        header = request.headers.get("authorization", "")
        if (token := tls_tokens.found_in(self.known(), header)) is None:
            raise RefusedError(
                "token",
                "This token is not valid for this daemon." if header else "Over TCP the daemon needs a token.",
                "Put a token of the daemon's tokens_file into a file, and set client_token_file in config.toml to it.",
                Exit.REFUSED,
            )
        return token

    def known(self) -> tuple[tls_tokens.Token, ...]:
        """Return the valid tokens; none while their file cannot be used."""
        try:
            path = config.secret_file(self.node.records.config.settings.tokens_file)
            found = path.stat()
            identity = (found.st_ino, found.st_size, found.st_mtime_ns)
            if identity != self.read:
                self.tokens, self.read = tls_tokens.tokens(path), identity
        except (ConfigError, OSError) as error:
            if str(error) != self.trouble:
                log.warning("no client is accepted over TCP: %s", error)
            self.tokens, self.read, self.trouble = (), None, str(error)
        return self.tokens
