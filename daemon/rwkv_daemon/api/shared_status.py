"""One reply for equal status requests that come at the same time: with fifty consoles, the status is computed once."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.requests import StatusRequest

FRESH_S: Final = 0.1
"""How long a reply is reused, unless a request came in between that may have changed something."""


class SharedReply(NamedTuple):
    """A reply that is being computed, or was, and when that began."""

    began: float
    reply: "asyncio.Future[StatusReply]"


@dataclass(slots=True)
class SharedStatus:
    """The last status replies, by request."""

    made: dict[StatusRequest, SharedReply] = field(default_factory=dict)

    async def of(self, request: StatusRequest, anew: Coroutine[None, None, StatusReply]) -> StatusReply:
        """Return a reply that was just computed or is being computed, else compute it with `anew`."""
        known = self.made.get(request)
        if known is not None and time.monotonic() - known.began < FRESH_S:
            await asyncio.wait({known.reply})
            if not known.reply.cancelled():
                anew.close()
                return known.reply.result()
        made = SharedReply(time.monotonic(), asyncio.get_running_loop().create_future())
        self.made[request] = made
        try:
            reply = await anew
        except BaseException:
            made.reply.cancel()
            raise
        made.reply.set_result(reply)
        return reply

    def forget(self) -> None:
        """Drop all replies, as something may have changed."""
        self.made.clear()
