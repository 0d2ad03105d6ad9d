"""The outbox of notifications: filled from stored events, emptied by the couriers."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rwkv_daemon.rules.work_keys import GIVEN
from rwkv_daemon.store.interface import Store, StoreRow, Transaction
from rwkv_daemon.store.wall_time import now

MOST_WAITING = 1000
"""Notices that may wait for one target; further ones are given up at once."""


class WorkLeft(NamedTuple):
    """Whether jobs run or wait and go on by themselves; and how many wait for an operator."""

    goes_on: int
    aside: int


async def work_left(store: Store) -> WorkLeft:
    """Return what is left to do. A job whose weights are being copied or hashed goes on by itself."""
    going = await store.one(
        "SELECT id FROM job WHERE state IN ('queued', 'starting', 'generating', 'grading', 'judging', 'stopping') "
        "LIMIT 1"
    )
    if going is not None:  # the rest need not be counted
        return WorkLeft(1, 0)
    row = await store.one(
        "SELECT COALESCE(SUM(CASE WHEN state IN ('held', 'paused') AND reason NOT IN "
        "('weights-hashing', 'weights-copying') THEN 1 ELSE 0 END), 0) AS aside, COUNT(*) AS n FROM job WHERE state IN "
        "('held', 'paused', 'queued', 'starting', 'generating', 'grading', 'judging', 'stopping')"
    )
    aside, every = (row["aside"], row["n"]) if row else (0, 0)
    return WorkLeft(every - aside, aside)


async def place_of(store: Store) -> tuple[int, bool] | None:
    """Return (the event up to which the outbox is filled, whether there was work since the queue was empty); None if
    there was no target before."""
    row = await store.one("SELECT seq, busy FROM notified WHERE id = 1")
    return (row["seq"], bool(row["busy"])) if row else None


async def remember_place(db: Transaction, seq: int, *, busy: bool) -> None:
    """Store up to which event the outbox is filled."""
    await db.execute(
        "INSERT INTO notified (id, seq, busy) VALUES (1, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, busy = excluded.busy",
        (seq, int(busy)),
    )


async def forget_place(db: Transaction) -> None:
    """Delete the position, as there are no targets any more; later targets get later events only."""
    await db.execute("DELETE FROM notified")


async def put(db: Transaction, target: str, notices: Iterable[Sequence[str]]) -> None:
    """Add notices (id, event, at, body) for a target; one that is there already is left alone."""
    row = await db.one("SELECT COUNT(*) AS n FROM notification WHERE target = ? AND state = 'waiting'", (target,))
    room = MOST_WAITING - (row["n"] if row else 0)
    for number, (notice, event, at, body) in enumerate(notices):
        fits = number < room
        await db.execute(
            "INSERT INTO notification (target, notice, event, at, body, state, error, ended) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (target, notice) DO NOTHING",
            (target, notice, event, at, body, *(("waiting", "", "") if fits else ("given-up", "too many wait", now()))),
        )


async def first_waiting(store: Store, target: str) -> StoreRow | None:
    """Return the next notice for a target."""
    return await store.one(
        "SELECT * FROM notification WHERE target = ? AND state = 'waiting' ORDER BY id LIMIT 1", (target,)
    )


async def tried(db: Transaction, number: int, *, state: str, error: str) -> None:
    """Store the result of a delivery attempt, and the time of the end unless the notice still waits."""
    await db.execute(
        "UPDATE notification SET state = ?, tries = tries + 1, error = ?, ended = ? WHERE id = ?",
        (state, error, "" if state == "waiting" else now(), number),
    )


async def prune(db: Transaction, before: str) -> None:
    """Delete notifications that ended before a time."""
    await db.execute("DELETE FROM notification WHERE ended <> '' AND ended < ?", (before,))


async def notice_counts(store: Store) -> dict[str, dict[str, int]]:
    """Return the number of notices by target and state."""
    rows = await store.all("SELECT target, state, COUNT(*) AS n FROM notification GROUP BY target, state")
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["target"], {})[row["state"]] = row["n"]
    return found


async def last_error(store: Store, target: str) -> str:
    """Return a target's last error, if its last delivery failed."""
    row = await store.one(
        "SELECT error FROM notification WHERE target = ? AND tries > 0 ORDER BY id DESC LIMIT 1", (target,)
    )
    return str(row["error"]) if row else ""


async def previous_version(store: Store, job: int) -> str:
    """Return the name of the newest earlier job with a score of the same (model, benchmark, kind); empty if there is
    none. A score that was given without samples is none."""
    row = await store.one(
        "SELECT MAX(score.job) AS job FROM score JOIN job AS old ON old.id = score.job JOIN job AS new ON new.id = ? "
        "WHERE old.model = new.model AND old.benchmark = new.benchmark AND old.kind = new.kind AND old.id < new.id "
        f"AND old.grader_version <> '{GIVEN}'",
        (job,),
    )
    return f"j{row['job']}" if row and row["job"] else ""


async def abandon(db: Transaction, targets: Sequence[str]) -> None:
    """Give up waiting notices for any other target than these."""
    others = f"AND target NOT IN ({', '.join('?' * len(targets))})" if targets else ""
    await db.execute(
        "UPDATE notification SET state = 'given-up', error = 'it is no target any more', ended = ? "
        f"WHERE state = 'waiting' {others}",
        (now(), *targets),
    )
