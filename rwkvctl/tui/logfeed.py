"""One task follows one log into a store: after a loss it goes on behind the last byte, and marks what it caught up."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from rwkvctl.protocol.errors import RefusedError, RwkvctlError
from rwkvctl.protocol.messages import LogsRequest
from rwkvctl.tui.health import stamp
from rwkvctl.tui.logstore import LogStore

if TYPE_CHECKING:
    from rwkvctl.tui.link import Link

AGAIN_S: Final = 1.0
TAIL: Final = 1000
"""Lines of the past that are fetched when a log is opened."""


class LogFeed:
    """A log, as far as it has been read. It may be left and followed again."""

    def __init__(self, link: "Link", target: str, store: LogStore) -> None:
        self.link, self.target, self.store = link, target, store
        self._lost_at = 0.0
        self._next = LogsRequest(target=target, tail=TAIL, follow=True)

    async def follow(self) -> None:
        """For ever: read the log of a job, an engine or the daemon. What is wrong the health line says."""
        while True:
            try:
                await self._read()
            except RefusedError as error:
                self.store.note(str(error))
                return
            except RwkvctlError:
                self._lost_at = self._lost_at or time.time()
            await (self.link.pause(AGAIN_S) if self._lost_at else asyncio.sleep(AGAIN_S))

    async def _read(self) -> None:
        async for chunk in self.link.log(self._next):
            if self._lost_at:
                note_gap(self.store, self._lost_at, chunk.text)
                self._lost_at = 0.0
            self.store.feed(chunk.text)
            if chunk.offset:
                self._next = LogsRequest(
                    target=self.target, tail=0, attempt=chunk.attempt, offset=chunk.offset, follow=True
                )


def note_gap(store: LogStore, lost_at: float, text: str) -> None:
    """A line that says from when to when nothing was heard, and how much of it has been fetched now."""
    start, end = stamp(lost_at)[11:19], stamp(time.time())[11:19]
    store.note(f"gap {start}–{end}, {text.count(chr(10)):,} lines fetched")
