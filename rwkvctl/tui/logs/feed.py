"""Tasks that follow logs and events; after a lost connection each resumes where it stopped and marks what was
missed."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from rwkvctl.protocol.errors import RefusedError, RwkvctlError, VersionSkewError
from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.requests import EventsRequest, LogsRequest, StatusRequest
from rwkvctl.tui.daemon.state import stamp
from rwkvctl.tui.logs.merge import LogMerge

if TYPE_CHECKING:
    from rwkvctl.tui.daemon.client import Link

AGAIN_S: Final = 1.0
LONGEST_PAUSE_S: Final = 15.0
"""A log that has ended is looked at ever less often: its job may be resumed."""

TAIL: Final = 1000
"""Lines of the past that are fetched when a log is opened."""


class Following:
    """The state of a stream that may be lost: since when, and whether a read error was already reported."""

    note: Callable[[str], None]
    _lost_at = 0.0
    _unreadable = ""

    def lost(self, error: RwkvctlError) -> None:
        """Record the loss of the stream; a read error is noted once, since the health line already reports a missing
        daemon."""
        if isinstance(error, VersionSkewError) and str(error) != self._unreadable:
            self._unreadable = str(error)
            self.note(self._unreadable)
        self._lost_at = self._lost_at or time.time()


class LogFeed(Following):
    """A log that is told with others: each line with its time and its source. It may be left and followed again.

    What the daemon says of it is left out where that is told anyway: where it is not `alone`.
    """

    def __init__(self, link: "Link", target: str, merge: LogMerge, *, alone: bool) -> None:
        self.link, self.target, self.merge, self.alone = link, target, merge, alone
        self._told_at = ""
        self._next = LogsRequest(target=target, tail=TAIL, follow=True, timestamps=True)

    async def follow(self) -> None:
        """Read the log of a job, an engine or the daemon until cancelled. Errors are left to the health line."""
        pause_s = AGAIN_S
        while True:
            before = self._next
            try:
                await self._read()
            except RefusedError as error:
                self.note(str(error))
                return
            except RwkvctlError as error:
                self.lost(error)
            self.merge.past_is_told(self.target)
            quiet = before is self._next and not self._lost_at
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if quiet else AGAIN_S
            await (self.link.pause(AGAIN_S) if self._lost_at else asyncio.sleep(pause_s))

    def take(self, chunk: LogChunk) -> None:
        """Merge a piece that has come; what the daemon says of the log is left out where that is told anyway."""
        if self.alone or chunk.source != "daemon" or chunk.offset:
            self.merge.take(chunk)

    def note(self, text: str) -> None:
        """Add a console note to the log; among several logs it names its target."""
        self.merge.note(text if self.alone else f"{self.target}: {text}")

    async def _read(self) -> None:
        request = self._next
        if request.offset >= 0:
            request = msgspec.structs.replace(request, since=self._told_at)
        async for chunk in self.link.log(request):
            if self._lost_at:
                self.note(gap(self._lost_at, chunk.text.count("\n")))
                self._lost_at = 0.0
            self.take(chunk)
            if not chunk.text:
                self.merge.past_is_told(self.target)
            if chunk.offset:
                self._next = msgspec.structs.replace(self._next, tail=0, attempt=chunk.attempt, offset=chunk.offset)
            elif chunk.at:
                self._told_at = chunk.at


class EventFeed(Following):
    """The node's events: up to `past` earlier ones first, then all that follow."""

    def __init__(
        self, link: "Link", take: Callable[[Event], None], note: Callable[[str], None], past: int,
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.link, self.take, self.note, self.past, self.caught_up = link, take, note, past, caught_up
        self.seq = -1

    async def follow(self) -> None:
        """Hand over events until cancelled, reconnecting after a loss."""
        while True:
            try:
                await self._read()
            except RwkvctlError as error:
                self.lost(error)
            self.caught_up()
            await self.link.pause(AGAIN_S)

    async def _read(self) -> None:
        last = (await self.link.ask(StatusRequest(limit=1), StatusReply)).last_event
        if last < self.seq:
            self.seq = -1  # a new store: its numbers begin again
        if self.seq < 0:
            await self._catch_up(EventsRequest(limit=self.past, before=last + 1))
            self.seq = max(self.seq, last)
        self.caught_up()
        if self._lost_at:
            self.note(gap(self._lost_at, last - self.seq))
            self._lost_at = 0.0
        await self._catch_up(EventsRequest(since=self.seq, stored=True))

    async def _catch_up(self, request: EventsRequest) -> None:
        async for event in self.link.events(request):
            if event.seq:
                self.seq = event.seq
                self.take(event)


def gap(lost_at: float, lines: int) -> str:
    """Return a sentence on a gap: from when to when nothing was heard, and how much of it has been fetched since."""
    start, end = stamp(lost_at)[11:19], stamp(time.time())[11:19]
    return f"gap {start}–{end}, {lines:,} lines fetched"
