"""Filling the outbox from stored events.

The position in the event table is stored with the notices, in one transaction: after a crash an event is read again,
and its notice, which has the same id, is not stored twice.
"""

from dataclasses import dataclass

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.event_bus import stored
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.notify.regression import regression
from rwkv_daemon.notify.rules import Notice, begins_work, notice_of, queue_empty
from rwkv_daemon.store.queries.notifications import forget_place, place_of, put, remember_place, work_left
from rwkvctl.protocol.events import Event
from rwkvctl.settings.notify import NotifyTarget

AT_ONCE = 500
REMEMBER_EVERY = 200
"""The position is stored after so many events without a notice."""


@dataclass(slots=True)
class OutboxPosition:
    """Up to which event the outbox is filled: `stored` on disk, `seq` in memory. `busy`: there was work since the queue
    was empty."""

    seq: int
    busy: bool
    stored: int


async def begin(records: Records, targets: tuple[NotifyTarget, ...], since: int) -> OutboxPosition | None:
    """Return where to continue; None if there are no targets. A new target gets events from when it was configured,
    also those that ended before this task had started."""
    known = await place_of(records.store)
    if not targets:
        if known is not None:
            async with records.store.write() as db:
                await forget_place(db)
        return None
    if known is not None:
        return OutboxPosition(known[0], known[1], known[0])
    worked = any(
        event.kind in {"job.state", "jobs.state"} for event in await stored(records.store, since, limit=AT_ONCE)
    )
    place = OutboxPosition(since, busy=worked or (await work_left(records.store)).goes_on > 0, stored=0)
    await keep(records, place)
    return place


async def fill(
    records: Records,
    catalogue: NodeCatalogue,
    comparisons: Comparisons,
    targets: tuple[NotifyTarget, ...],
    place: OutboxPosition,
) -> int:
    """Put notices of all new events into the outbox; returns how many there were."""
    written = 0
    while events := await stored(records.store, place.seq, limit=AT_ONCE):
        written += await take_in(records, catalogue, comparisons, targets, place, events)
    return written


async def take_in(
    records: Records,
    catalogue: NodeCatalogue,
    comparisons: Comparisons,
    targets: tuple[NotifyTarget, ...],
    place: OutboxPosition,
    events: list[Event],
) -> int:
    """Store the notices of some events, and the position after them; returns how many there were."""
    general = [notice for event in events if (notice := notice_of(event, records.hostname)) is not None]
    busy = place.busy or begins_work(events)
    if busy and (empty := queue_empty(await work_left(records.store), events[-1], records.hostname)) is not None:
        general.append(empty)
        busy = False
    found = {
        target.name: [*general, *await regressions(records, catalogue, comparisons, target, events)]
        for target in targets
    }
    chosen = {t.name: [n for n in found[t.name] if t.wants(n.event)] for t in targets}
    place.seq, place.busy = events[-1].seq, busy
    if any(chosen.values()) or place.seq - place.stored >= REMEMBER_EVERY:
        await keep(records, place, chosen)
    return sum(map(len, chosen.values()))


async def regressions(
    records: Records, catalogue: NodeCatalogue, comparisons: Comparisons, target: NotifyTarget, events: list[Event]
) -> list[Notice]:
    """Return notices about regressions among the events, if the target wants them: each costs a comparison."""
    if not target.wants("regression"):
        return []
    scores = [event for event in events if event.kind == "job.score"]
    return [
        notice
        for event in scores
        if (notice := await regression(records, catalogue, comparisons, target, event)) is not None
    ]


async def keep(records: Records, place: OutboxPosition, chosen: dict[str, list[Notice]] | None = None) -> None:
    """Store notices and the position, in one transaction."""
    async with records.store.write() as db:
        for name, notices in (chosen or {}).items():
            await put(db, name, [(n.id, n.event, n.at, n.body) for n in notices])
        await remember_place(db, place.seq, busy=place.busy)
    place.stored = place.seq
