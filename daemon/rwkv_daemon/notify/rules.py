"""Which events become notices, and their texts. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from rwkv_daemon.store.queries.notifications import WorkLeft
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.states import ACTIVE

SCHEMA: Final = "rwkvctl.notice/1"
BUSY: Final = frozenset({*ACTIVE, "queued"})
"""States of jobs that count as work."""

FEEDBACK: Final[Mapping[str, str]] = {
    "done": "checkpoint-done", "best": "best-so-far", "collapsed": "collapsed",
}  # fmt: skip
JUDGE: Final[Mapping[str, str]] = {"outage": "the judge does not answer", "recovered": "the judge answers again"}


class Notice(Struct, frozen=True, kw_only=True):
    """What a receiver gets, as JSON. `id` is the same at every try, so a receiver can drop repetitions."""

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
    """Return the notice about one event; None if it needs none."""
    data = event.data
    if event.kind == "job.state" and data.get("state") == "failed":
        return made("job-failed", event, node, f"{event.job} failed: {event.text}")
    if event.kind.startswith("gpu") and data.get("condition") == "quarantined":
        return made("gpu-quarantined", event, node, event.text)
    if event.kind == "judge" and data.get("kind") in JUDGE:
        return made("judge-outage", event, node, f"{JUDGE[str(data['kind'])]}: {event.text}")
    if event.kind == "feedback" and data.get("what") in FEEDBACK:
        return made(FEEDBACK[str(data["what"])], event, node, event.text)
    if event.kind == "disk" and data.get("low"):
        return made("disk-low", event, node, event.text)
    if event.kind == "killed" and data.get("alarm"):
        return made("killed", event, node, str(data["said"]))
    return None


def made(name: str, event: Event, node: str, text: str, data: dict[str, object] | None = None) -> Notice:
    """Return a notice about an event. Its id is made of stored values, so it is the same after a restart."""
    known = event.data if data is None else data
    return Notice(id=f"{node}-{event.at}-{event.seq}-{name}", event=name, at=event.at, node=node, text=text, data=known)


def begins_work(events: Iterable[Event]) -> bool:
    """Whether any of these events means that there was work."""
    return any(
        e.kind == "session" or (e.kind in {"job.state", "jobs.state"} and e.data.get("state") in BUSY) for e in events
    )


def queue_empty(left: WorkLeft, last: Event, node: str) -> Notice | None:
    """Return the notice that all work is done, if it is; `last` is the event after which that was found."""
    if left.goes_on:
        return None
    text = "nothing runs or waits any more" + (f"; {left.aside} jobs are held or paused" if left.aside else "")
    return made("queue-empty", last, node, text, {"held_or_paused": left.aside})
