"""Events: stored ones with a sequence number, live ones without, and the clients that follow them.

A follower that does not read is dropped rather than waited for: its queue is bounded, and it can come back with the
last number it saw.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rwkv_daemon.store.interface import Store, StoreError, StoreRow, Transaction
from rwkv_daemon.store.queries.events import add_event, events_after, events_before, newest_number, number_at
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.requests import EventsRequest

QUEUE: Final = 1000
HEARTBEAT_S: Final = 15.0
AWAY_S: Final = 1.0
MOST: Final = 2**62
MOST_A_PAGE: Final = 1000
ONE_OF_MANY: Final = "job.moved"
"""The kind of an event that is one of hundreds stored at once. It is part of the job's own history and is not streamed;
`jobs.state` is streamed instead, once for all of them."""


@dataclass(slots=True)
class Bus:
    """Passes events to the followers. Stored events are published after their transaction has committed."""

    followers: set[asyncio.Queue[Event | None]] = field(default_factory=set)
    last: int = 0

    def publish(self, events: Iterable[Event]) -> None:
        """Give events to every follower; a follower whose queue is full gets None and is dropped."""
        for event in events:
            self.last = max(self.last, event.seq)
            for queue in list(self.followers):
                if queue.full():
                    self.followers.discard(queue)
                    while not queue.empty():
                        queue.get_nowait()
                    queue.put_nowait(None)
                else:
                    queue.put_nowait(event)

    @contextmanager
    def follow(self) -> Any:
        """Yield a queue of all events from now on. None in it means that the follower was too slow and is dropped."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE)
        self.followers.add(queue)
        try:
            yield queue
        finally:
            self.followers.discard(queue)


async def record(db: Transaction, kind: str, **values: Any) -> Event:
    """Store an event in the caller's transaction; it is to be published after the commit."""
    event = Event(kind=kind, at=now(), **values)
    job, engine = (int(name[1:]) if name else None for name in (event.job, event.engine))
    data = json.dumps(event.data, ensure_ascii=False)
    number = await add_event(db, event.at, kind, job, engine, event.session, event.text, data)
    return msgspec.structs.replace(event, seq=number)


def live_event(kind: str, **values: Any) -> Event:
    """Return an event that is streamed but not stored, such as progress and telemetry."""
    return Event(kind=kind, at=now(), **values)


async def newest(store: Store, limit: int) -> list[Event]:
    """Return the last `limit` stored events, oldest first."""
    return await stored(store, await newest_number(store) - max(limit, 0))


async def stored(store: Store, since: int, session: str = "", limit: int = 10_000) -> list[Event]:
    """Return stored events after a number, oldest first."""
    rows = await events_after(store, since, session, ONE_OF_MANY, limit)
    return list(map(event_of, rows))


def event_of(row: StoreRow) -> Event:
    """Return the event that a stored row holds."""
    return Event(
        kind=row["kind"],
        at=row["at"],
        seq=row["seq"],
        job=f"j{row['job']}" if row["job"] else "",
        engine=f"e{row['engine']}" if row["engine"] else "",
        session=row["session"],
        text=row["text"],
        data=json.loads(row["data"]),
    )


async def page(store: Store, request: EventsRequest) -> AsyncIterator[Event]:
    """Yield one page of stored events, oldest first."""
    before = min(request.before if request.before > 0 else MOST, MOST)
    if request.until:
        before = min(before, await number_at(store, request.until) + 1)
    for row in await events_before(store, before, request.session, ONE_OF_MANY, min(request.limit, MOST_A_PAGE)):
        yield event_of(row)


async def stream(
    bus: Bus, store: Store, *, since: int, follow: bool, session: str, only_stored: bool = False
) -> AsyncIterator[Event]:
    """Yield stored events after `since`, then live ones, without gaps or repetitions; a heartbeat when nothing
    happens."""
    with bus.follow() as queue:
        last = bus.last if since < 0 else since
        while since >= 0:
            try:
                past = await stored(store, min(last, MOST), session)
            except StoreError:
                if not follow:
                    raise
                event = await next_live_event(queue, AWAY_S)
                if event is None:
                    return
                live = not event.seq and wanted(event, last, session, only_stored=only_stored)
                yield event if live else live_event("heartbeat")  # stored events follow once they can be read
                continue
            for known in past:
                last = known.seq
                yield known
            if not past:
                break
        told_at = time.monotonic()
        while follow:
            event = await next_live_event(queue, told_at + HEARTBEAT_S - time.monotonic())
            if event is None:
                return
            if wanted(event, last, session, only_stored=only_stored):
                told_at = time.monotonic()
                yield event


async def next_live_event(queue: asyncio.Queue[Event | None], seconds: float) -> Event | None:
    """Return the next live event, or a heartbeat if none comes in time; None for a follower that was dropped."""
    try:
        async with asyncio.timeout(seconds):
            return await queue.get()
    except TimeoutError:
        return live_event("heartbeat")


def wanted(event: Event, last: int, session: str, *, only_stored: bool) -> bool:
    """Whether a live event is for this follower, who has received all events up to number `last`."""
    if session and event.session not in {"", session}:
        return False
    return event.seq > last if event.seq else not only_stored or event.kind == "heartbeat"
