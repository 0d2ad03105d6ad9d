"""Which reads wait for which. Each lane has connections of its own, so that no client's read can delay the daemon.

The daemon's own tasks (supervisor, ingest, judging, housekeeping, reaper) read in the lane OWN, which is the default.
The server moves a request to REQUESTS, and what may read a whole job moves itself to LONG. While a task holds something
that the daemon needs (the write lock, `Records.owner`), it reads in OWN.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from rwkv_daemon.store.interface import StoreError

ReadLane = Enum("ReadLane", ["OWN", "REQUESTS", "LONG"])

AT_ONCE: Final = {ReadLane.OWN: 2, ReadLane.REQUESTS: 3, ReadLane.LONG: 2}
"""Queries of a lane that run at once. Each costs a connection with its page cache, and a thread."""

LONGEST_S: Final = {ReadLane.OWN: None, ReadLane.REQUESTS: 10.0, ReadLane.LONG: 0.6}
"""How long a query of a lane may wait and run. No query of a request should take so long; one that does is ended, so
that it does not block its lane. What is long is asked in pages."""


@dataclass(frozen=True, slots=True)
class LaneReader:
    """Who reads: in which lane, and for which user."""

    lane: ReadLane = ReadLane.OWN
    who: Hashable = None


OURSELVES: Final = LaneReader()
READER: Final[ContextVar[LaneReader]] = ContextVar("reader", default=OURSELVES)


class LateError(StoreError):
    """A query was ended because its time was over. The store itself works."""


@contextlib.contextmanager
def reading(reader: LaneReader) -> Iterator[None]:
    """Read as another reader within the block. (Without a token: a generator may be closed in another context than it
    began in.)"""
    before = READER.get()
    READER.set(reader)
    try:
        yield
    finally:
        READER.set(before)


class OwnLock(asyncio.Lock):
    """A lock that the daemon's own tasks wait for, too: its holder reads in the daemon's own lane."""

    def __init__(self) -> None:
        super().__init__()
        self.before = OURSELVES

    async def __aenter__(self) -> None:
        await super().__aenter__()
        self.before = READER.get()
        READER.set(OURSELVES)

    async def __aexit__(self, *error: object) -> None:
        READER.set(self.before)
        self.release()


Thing = TypeVar("Thing")


class Turns(Generic[Thing]):
    """Things that one task at a time may have. Users take turns, so one who asks for much waits longer than others."""

    def __init__(self, things: Iterable[Thing]) -> None:
        self.free = list(things)
        self.waiting: dict[Hashable, deque[asyncio.Future[Thing]]] = {}

    async def take(self, who: Hashable) -> Thing:
        """Wait for a free thing and return it; the caller hands it back with `give`."""
        if self.free:
            return self.free.pop()  # the one used last has the warmest cache
        mine: asyncio.Future[Thing] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(who, deque()).append(mine)
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.give(mine.result())
            raise

    def give(self, thing: Thing) -> None:
        """Give a thing back: it goes to the user who has waited longest since their last turn."""
        while self.waiting:
            who = next(iter(self.waiting))
            theirs = self.waiting.pop(who)
            mine = theirs.popleft()
            if theirs:
                self.waiting[who] = theirs  # behind all other users
            if not mine.done():
                mine.set_result(thing)
                return
        self.free.append(thing)
