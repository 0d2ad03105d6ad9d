"""The audit trail: who changed what, with which outcome, in the same transaction as the change itself.

The server opens an `AuditEntry` for each request that changes something. The first transaction of the request stores it
as done; a request that changes nothing, is refused or fails is stored when that is known. What the daemon does by
itself is recorded where it is done.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rwkv_daemon.changes import caller
from rwkv_daemon.rules import roles
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.rules.roles import Actor
from rwkv_daemon.store import Store, StoreRow, Transaction
from rwkv_daemon.store.queries.audit import add_entry, entries
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.audit import AuditReply, AuditRequest, AuditView
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.replies import ChangedReply
from rwkvctl.protocol.routes import AnyReply
from rwkvctl.protocol.zombies import ReapReply

log = logging.getLogger("rwkvctl.audit")

LONGEST_TARGET: Final = 200
LONGEST_DATA: Final = 4000
TARGETS: Final = (
    "action", "jobs", "job", "session", "gpus", "gpu", "pid", "sample", "model", "path", "target", "recipe", "root",
    "watch", "checkpoints", "checkpoint", "pattern", "baseline", "source",
)  # fmt: skip
"""Fields of requests that name what is to be changed, and what is done to it where the verb does not say that."""


async def record(
    db: Transaction, actor: Actor, verb: str, target: str, outcome: str, data: Mapping[str, object] | None = None
) -> None:
    """Store one entry in the caller's transaction. `db` is a `Change.db`; `data` must hold no secret."""
    target = cut(target, LONGEST_TARGET)
    await add_entry(db, (now(), actor.uid, actor.gid, actor.pid, actor.name, verb, target, outcome), data or {})
    log.info("%s (uid %d, pid %d): %s %s: %s", actor.name, actor.uid, actor.pid, verb, target, outcome)


@dataclass(slots=True)
class AuditEntry:
    """What is stored of a request; `written` is set once a transaction holds it."""

    verb: str
    target: str
    data: Mapping[str, object]
    written: bool = False


ENTRY: Final[ContextVar[AuditEntry | None]] = ContextVar("entry", default=None)


@contextlib.contextmanager
def opened(entry: AuditEntry) -> Iterator[None]:
    """Make the entry the open one while its request is answered."""
    token = ENTRY.set(entry)
    try:
        yield
    finally:
        ENTRY.reset(token)


async def settle(db: Transaction, events: Sequence[Event]) -> None:
    """Store the open entry as done, in the first transaction of the request that stores an event: every change is an
    event."""
    entry = ENTRY.get()
    if entry is None or entry.written or not events:
        return
    sessions = dict.fromkeys(event.session for event in events if event.session)
    await record(db, caller.caller(), entry.verb, entry.target or " ".join(sessions), "done", entry.data)
    entry.written = True


async def close(store: Store, entry: AuditEntry, outcome: str) -> None:
    """Store the outcome of a request that changed nothing, or failed."""
    async with store.write() as db:
        await record(db, caller.caller(), entry.verb, entry.target, outcome, entry.data)


def entry_of(request: msgspec.Struct) -> AuditEntry:
    """Return the entry of a request: its path as the verb, its target, and all of its fields."""
    fields: dict[str, Any] = msgspec.to_builtins(request)
    fields.pop("request_id", None)
    return AuditEntry(roles.verb_of(type(request)), target_of(fields), bounded(fields))


def target_of(fields: Mapping[str, Any]) -> str:
    """Return what a request names, or `all`; empty if only the change itself tells."""
    named = [fields[name] for name in TARGETS if fields.get(name)]
    words = [" ".join(map(str, one)) if isinstance(one, (list, tuple)) else str(one) for one in named]
    return " ".join(words) or ("all" if fields.get("all") else "")


def bounded(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields, or the beginning of their text if they are too long."""
    text = msgspec.json.encode(fields).decode()
    return fields if len(text) <= LONGEST_DATA else {"cut": text[:LONGEST_DATA]}


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def outcome_of(reply: AnyReply) -> str:
    """Return the outcome of a request for which nothing was stored."""
    if isinstance(reply, ReapReply):
        return reply.outcome
    if isinstance(reply, ChangedReply) and not reply.changed and not any(i.changed for i in reply.items):
        return "unchanged"
    return "done"


async def trail(store: Store, request: AuditRequest) -> AuditReply:
    """Answer `GET /v1/audit`: a page of the entries that match, newest first. `next` is the id before which the
    following page begins, 0 at the end."""
    limit = page_size(request.limit)
    before = max(0, min(request.before, 2**62))
    rows = await entries(
        store, since=request.since, user=request.user, verb=request.verb, before=before, limit=limit
    )  # fmt: skip
    return AuditReply(items=tuple(map(view, rows)), next=rows[-1]["id"] if len(rows) == limit else 0)


def view(row: StoreRow) -> AuditView:
    """Return a row of the audit trail as clients see it."""
    fields = {name: row[name] for name in ("id", "at", "uid", "gid", "pid", "verb", "target", "outcome")}
    return AuditView(**fields, user=row["name"], data=msgspec.json.decode(row["data"]))
