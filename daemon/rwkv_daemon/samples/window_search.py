"""Searching the samples of a job, window by window, for as long as a client waits.

A job may have millions of samples, and none of them may match. So each query reads as many samples as it can in a
moment, and a reply says where to continue.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rwkv_daemon.store import StoreRow
from rwkv_daemon.store.queries.sample_pages import SampleWindow
from rwkv_daemon.store.read_lanes import READER, LaneReader, LateError, ReadLane, reading

ANSWER_S: Final = 0.8
"""How long a search for one reply takes."""

QUERY_S: Final = 0.2
"""How long one query should take: other queries wait for their turn meanwhile."""

FIRST: Final = 1000
LEAST: Final = 20
MOST: Final = 100_000
"""Samples per query: of the first one, at least, and at most."""


Windows = Callable[[int, int, int], Awaitable[SampleWindow]]


@dataclass(slots=True)
class WindowSize:
    """How many samples the next query reads."""

    size: int = field(default_factory=lambda: FIRST)

    def took(self, seconds: float) -> None:
        """Adapt to how long the last query took."""
        if seconds < QUERY_S / 2:
            self.size = min(2 * self.size, MOST)
        elif seconds > 2 * QUERY_S:
            self.late()

    def late(self) -> None:
        """Adapt to a query that was ended because it took too long."""
        self.size = max(self.size // 2, LEAST)


@dataclass(slots=True)
class SearchPage:
    """The samples that were found, where to continue (None: there are no more), and how many were read. `looking`: the
    search ended only because its time was over."""

    rows: list[StoreRow] = field(default_factory=list)
    next: int | None = None
    looked: int = 0
    looking: bool = False


async def search_windows(
    place: int,
    windows: Windows,
    ask: Callable[[SampleWindow, int], Awaitable[list[StoreRow]]],
    *,
    enough: int,
    most: int = 2**62,
) -> SearchPage:
    """Search after a place until `enough` samples are found or `most` are read. `windows` returns the next window of so
    many samples, `ask` the first matches in a window."""
    clock = asyncio.get_running_loop().time
    found, pace, until = SearchPage(next=place), WindowSize(), clock() + ANSWER_S
    with long_read():
        while found.next is not None:
            if found.looking:
                break
            began = clock()
            try:
                window = await windows(found.next, pace.size, most - found.looked)
                rows = await ask(window, enough - len(found.rows))
            except LateError:
                pace.late()
                found.looking = clock() > until
                continue
            found.rows += rows
            found.looked += window.count
            found.next = window.next
            if len(found.rows) >= enough or found.looked >= most:
                break
            pace.took(clock() - began)
            found.looking = found.next is not None and clock() > until
    return found


@contextlib.contextmanager
def long_read() -> Iterator[None]:
    """Read in the lane of requests that may read a whole job. A query there has so little time that it ends with
    LateError on a busy machine: only for a loop that asks again for less."""
    with reading(LaneReader(ReadLane.LONG, READER.get().who)):
        yield
