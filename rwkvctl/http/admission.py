"""The clients of a server and what each of them takes, so that one cannot take what all need."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rwkvctl.http.peer_credentials import Peer
from rwkvctl.http.unadmitted import Porch

MOST_TOLD: Final = 256
"""Clients that are told at the same time that there is no room: others are closed without a word."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one client, a uid or an address, may take at the same time."""

    connections: int
    requests: int
    bytes: int


class GreedyError(Exception):
    """A client wants more than its share; answered with 503."""


def is_ours(peer: Peer | None) -> bool:
    """Root and our own user: they find a way in when strangers have filled the server."""
    return peer is not None and peer.uid in {0, os.geteuid()}


@dataclass(slots=True)
class Crowd:
    """The clients of one socket. `most` connections of strangers are let in; nobody gets more than `share`, if there is
    one. `porch`: those who are not in yet."""

    most: int
    share: Share | None
    porch: Porch = field(default_factory=Porch)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    strangers: int = 0
    connections: Counter[Hashable] = field(default_factory=Counter)
    bytes: Counter[Hashable] = field(default_factory=Counter)
    turns: dict[Hashable, asyncio.Semaphore] = field(default_factory=dict)

    @contextlib.contextmanager
    def entering(self, who: Hashable, peer: Peer | None) -> Iterator[bool]:
        """Count one connection while it lasts, if there is room for it, and say whether there is."""
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
        """Whether so many are being told to go that there is no time for manners."""
        return len(self.tasks) - self.connections.total() >= min(self.most, MOST_TOLD)

    @contextlib.asynccontextmanager
    async def turn(self, who: Hashable) -> AsyncIterator[None]:
        """Wait until fewer requests of this client are being answered than it may have."""
        if self.share is None:
            yield
            return
        async with self.turns.setdefault(who, asyncio.Semaphore(self.share.requests)):
            yield

    @contextlib.contextmanager
    def holding(self, who: Hashable) -> Iterator["Held"]:
        """Count the memory that one request and its answer take."""
        held = Held(self, who)
        try:
            yield held
        finally:
            self.bytes[who] -= held.bytes
            if not self.bytes[who]:
                del self.bytes[who]


@dataclass(slots=True)
class Held:
    """Memory that one request takes of its client's share."""

    crowd: Crowd
    who: Hashable
    bytes: int = 0

    def take(self, size: int) -> None:
        """So many bytes more. Raises GreedyError beyond the client's share."""
        share = self.crowd.share
        if share is not None and self.crowd.bytes[self.who] + size > share.bytes:
            raise GreedyError("you have too much under way at once; ask again in a moment")
        self.crowd.bytes[self.who] += size
        self.bytes += size
