"""Earlier replies, which are sent again, marked as old, while the store does not answer.

A request waits for the store while the store is there. Once the store is away, the request has a moment left and is
then answered with the last reply to an equal request.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from rwkv_daemon.store import StoreError
from rwkv_daemon.store.watched import Health
from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.requests import StatusRequest
from rwkvctl.protocol.routes import AnyReply, AnyRequest

T = TypeVar("T")

GRACE_S, PATIENCE_S = 0.25, 1.5
"""Seconds that a request still waits if the store goes away under it (GRACE_S), and that one waits which comes later
(PATIENCE_S)."""
MOST, LONGEST_BYTES = 64, 64 * 1024
"""How many replies are kept, and how long one may be."""


@dataclass(slots=True)
class LastReplies:
    """The last replies to reading requests, the newest last. A status is kept however long it is, if it covers all
    sessions."""

    replies: OrderedDict[bytes, AnyReply] = field(default_factory=OrderedDict)
    status: StatusReply | None = None
    status_at: float = float("-inf")
    left: set[asyncio.Task[Any]] = field(default_factory=set)
    """Requests that were answered with an old reply and still wait for the store."""

    def keep(self, request: AnyRequest, reply: AnyReply, size: int) -> None:
        """Remember a reply of `size` bytes."""
        if isinstance(reply, StatusReply) and says_all(request):
            self.status, self.status_at = reply, time.monotonic()
        if size <= LONGEST_BYTES:
            key = key_of(request)
            self.replies[key] = reply
            self.replies.move_to_end(key)
        if len(self.replies) > MOST:
            self.replies.popitem(last=False)

    def of(self, request: AnyRequest) -> AnyReply | None:
        """Return the last reply to an equal request, or None. For a status, one with other limits counts, too."""
        found = self.replies.get(key_of(request))
        return self.status if found is None and isinstance(request, StatusRequest) and not request.session else found

    async def in_time(self, health: Health, answer: Coroutine[Any, Any, T]) -> T:
        """Return the answer, or raise StoreError if the store is away and keeps it waiting. The waiting coroutine is
        then cancelled."""
        task = asyncio.ensure_future(answer)
        left_s = PATIENCE_S if health.state == "away" else GRACE_S
        try:
            while health.state != "away" and not task.done():
                turned = asyncio.ensure_future(health.turned.wait())
                await asyncio.wait({task, turned}, return_when=asyncio.FIRST_COMPLETED)
                turned.cancel()
            await asyncio.wait({task}, timeout=left_s)
        finally:
            if not task.done():  # a driver that waits for its server may take a while to be cancelled
                task.cancel()
                self.left.add(task)
                task.add_done_callback(self._forget)
        if task.cancelled() or not task.done():
            raise StoreError(health.why or "the store does not answer")
        return task.result()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.left.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it


def says_all(request: AnyRequest) -> bool:
    """Whether a status request asks for every session, and for the usual number of jobs."""
    return isinstance(request, StatusRequest) and not request.session and request.limit >= StatusRequest().limit


def key_of(request: AnyRequest) -> bytes:
    """Return the key under which the reply to a request is remembered: its type and its fields as JSON."""
    return type(request).__name__.encode() + msgspec.json.encode(request)
