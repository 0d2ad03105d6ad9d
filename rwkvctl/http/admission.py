"""Which connections and requests a server admits: each client has a share, so that none takes what all need."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rwkvctl.http.peer_credentials import Peer
from rwkvctl.http.unadmitted import UnadmittedConnections

MOST_TOLD: Final = 256
"""Clients that are sent a refusal at the same time; further ones are closed without an answer."""


@dataclass(frozen=True, slots=True)
class ClientShare:
    """What one client, a uid or an address, may take at the same time."""

    connections: int
    requests: int
    bytes: int


class GreedyError(Exception):
    """A client asks for more than its share; answered with 503."""


def is_ours(peer: Peer | None) -> bool:
    """Whether a client is root or the server's own user: they are admitted when other users have filled the server."""
    return peer is not None and peer.uid in {0, os.geteuid()}


@dataclass(slots=True)
class Admission:
    """The clients of one socket. At most `most` connections of other users than root and our own are admitted, and each
    client gets at most its `share` (None: no limit)."""

    most: int
    share: ClientShare | None
    unadmitted: UnadmittedConnections = field(default_factory=UnadmittedConnections)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    strangers: int = 0
    connections: Counter[Hashable] = field(default_factory=Counter)
    bytes: Counter[Hashable] = field(default_factory=Counter)
    turns: dict[Hashable, asyncio.Semaphore] = field(default_factory=dict)

    @contextlib.contextmanager
    def entering(self, who: Hashable, peer: Peer | None) -> Iterator[bool]:
        """Count one connection while the block runs; yields False, and counts nothing, if there is no room for it."""
        if self.full(who, peer):
            yield False
            return
        strange = not is_ours(peer)
        self.connections[who] += 1
        self.strangers += strange
        try:
            yield True
        finally:
            self.strangers -= strange
            self.connections[who] -= 1
            if not self.connections[who]:
                del self.connections[who]
                self.turns.pop(who, None)

    def full(self, who: Hashable, peer: Peer | None) -> bool:
        """Whether there is no room for one more connection of this client."""
        if self.share is not None and self.connections[who] >= self.share.connections:
            return True
        return self.strangers >= self.most and not is_ours(peer)

    def packed(self) -> bool:
        """Whether so many clients are being refused that a further one is closed without an answer."""
        return len(self.tasks) - self.connections.total() >= min(self.most, MOST_TOLD)

    @contextlib.asynccontextmanager
    async def turn(self, who: Hashable) -> AsyncIterator[None]:
        """Wait until this client has fewer requests in progress than its share allows, and count one for the block."""
        if self.share is None:
            yield
            return
        async with self.turns.setdefault(who, asyncio.Semaphore(self.share.requests)):
            yield

    @contextlib.contextmanager
    def holding(self, who: Hashable) -> Iterator["RequestMemory"]:
        """Yield the account of the memory that one request and its response take; it is released after the block."""
        held = RequestMemory(self, who)
        try:
            yield held
        finally:
            self.bytes[who] -= held.bytes
            if not self.bytes[who]:
                del self.bytes[who]


@dataclass(slots=True)
class RequestMemory:
    """Memory of one request and its response, which counts against its client's share."""

    admission: Admission
    who: Hashable
    bytes: int = 0

    def take(self, size: int) -> None:
        """Count `size` more bytes. Raises GreedyError if the client would exceed its share."""
        share = self.admission.share
        if share is not None and self.admission.bytes[self.who] + size > share.bytes:
            raise GreedyError("you have too much under way at once; ask again in a moment")
        self.admission.bytes[self.who] += size
        self.bytes += size
