"""One answer for all who ask the same at once: fifty consoles look at the node, and it is described once for them."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.requests import StatusRequest

FRESH_S: Final = 0.1
"""So long an answer is given again, unless something was asked meanwhile that may have changed it."""


class SharedReply(NamedTuple):
    """An answer that is made, or was, and when that began."""

    began: float
    reply: "asyncio.Future[StatusReply]"


@dataclass(slots=True)
class SharedStatus:
    """The last answers, by what was asked."""

    made: dict[StatusRequest, SharedReply] = field(default_factory=dict)

    async def of(self, request: StatusRequest, anew: Coroutine[None, None, StatusReply]) -> StatusReply:
        """The answer: one that was just made, or one that is being made, else `anew`."""
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
        """Something may have changed: nothing that was made before is given again."""
        self.made.clear()
