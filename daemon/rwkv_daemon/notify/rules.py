"""Which events somebody is told of, and in which words. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from rwkv_daemon.store.queries.notifications import WorkLeft
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.states import ACTIVE

SCHEMA: Final = "rwkvctl.notice/1"
BUSY: Final = frozenset({*ACTIVE, "queued"})
"""States that mean that there is work."""

JUDGE: Final[Mapping[str, str]] = {"outage": "the judge does not answer", "recovered": "the judge answers again"}


class Notice(Struct, frozen=True, kw_only=True):
    """What a receiver gets, as JSON. `id` is the same at every try: who has seen it may drop it."""

    schema: str = SCHEMA
    id: str
    event: str
    at: str
    node: str
    text: str
    data: dict[str, object] = {}

    @property
    def body(self) -> str:
        """The notice as JSON text, as it is stored in the outbox and sent."""
        return msgspec.json.encode(self).decode()


def notice_of(event: Event, node: str) -> Notice | None:
    """The notice that one event is worth by itself, if it is."""
    data = event.data
    if event.kind == "job.state" and data.get("state") == "failed":
        return made("job-failed", event, node, f"{event.job} failed: {event.text}")
    if event.kind.startswith("gpu") and data.get("condition") == "quarantined":
        return made("gpu-quarantined", event, node, event.text)
    if event.kind == "judge" and data.get("kind") in JUDGE:
        return made("judge-outage", event, node, f"{JUDGE[str(data['kind'])]}: {event.text}")
    if event.kind == "disk" and data.get("low"):
        return made("disk-low", event, node, event.text)
    if event.kind == "killed" and data.get("alarm"):
        return made("killed", event, node, str(data["said"]))
    return None


def made(name: str, event: Event, node: str, text: str, data: dict[str, object] | None = None) -> Notice:
    """A notice of an event. Its id is made of what is stored of the event, so it is the same after a restart."""
    known = event.data if data is None else data
    return Notice(id=f"{node}-{event.at}-{event.seq}-{name}", event=name, at=event.at, node=node, text=text, data=known)


def begins_work(events: Iterable[Event]) -> bool:
    """Whether there was work to do at any of these events."""
    return any(
        e.kind == "session" or (e.kind in {"job.state", "jobs.state"} and e.data.get("state") in BUSY) for e in events
    )


def queue_empty(left: WorkLeft, last: Event, node: str) -> Notice | None:
    """The notice that all work is done, if it is; `last` is the event after which that was seen."""
    if left.goes_on:
        return None
    text = "nothing runs or waits any more" + (f"; {left.aside} jobs are held or paused" if left.aside else "")
    return made("queue-empty", last, node, text, {"held_or_paused": left.aside})
