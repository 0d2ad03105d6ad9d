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


async def follow_log(link: "Link", target: str, store: LogStore) -> None:
    """For ever: read the log of a job, an engine or the daemon. What is wrong the health line says."""
    request = LogsRequest(target=target, tail=TAIL, follow=True)
    lost_at = 0.0
    while True:
        try:
            async for chunk in link.log(request):
                if lost_at:
                    note_gap(store, lost_at, chunk.text)
                    lost_at = 0.0
                store.feed(chunk.text)
                if chunk.offset:
                    request = LogsRequest(
                        target=target, tail=0, attempt=chunk.attempt, offset=chunk.offset, follow=True
                    )
        except RefusedError as error:
            store.note(str(error))
            return
        except RwkvctlError:
            lost_at = lost_at or time.time()
        await (link.pause(AGAIN_S) if lost_at else asyncio.sleep(AGAIN_S))


def note_gap(store: LogStore, lost_at: float, text: str) -> None:
    """A line that says from when to when nothing was heard, and how much of it has been fetched now."""
    start, end = stamp(lost_at)[11:19], stamp(time.time())[11:19]
    store.note(f"gap {start}–{end}, {text.count(chr(10)):,} lines fetched")
