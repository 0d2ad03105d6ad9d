"""Queries about operating jobs: pauses, how far a stop has come, why attempts ended, and events."""

from typing import Any, NamedTuple

from rwkv_daemon.store.interface import Store, StoreRow, Transaction


async def add_pause(db: Transaction, values: tuple[str, str, str, str, str]) -> None:
    """Add a pause (scope, name, at, who, why), or replace its reason."""
    await db.execute(
        "INSERT INTO pause (scope, name, at, who, why) VALUES (?, ?, ?, ?, ?) ON CONFLICT (scope, name) "
        "DO UPDATE SET at = excluded.at, who = excluded.who, why = excluded.why",
        values,
    )


async def remove_pause(db: Transaction, scope: str, name: str) -> None:
    """Lift a pause; nothing happens if there is none."""
    await db.execute("DELETE FROM pause WHERE scope = ? AND name = ?", (scope, name))


async def all_pauses(store: Store) -> list[StoreRow]:
    """Return every pause in force, oldest first."""
    return await store.all("SELECT scope, name, at, who, why FROM pause ORDER BY at, scope, name")


async def update_attempt(db: Transaction, job: int, number: int, **values: Any) -> None:
    """Set the named columns (state, rung, failure, why) of one attempt."""
    assert values.keys() <= {"state", "rung", "failure", "why"}, values
    assignments = ", ".join(f"{name} = ?" for name in values)
    await db.execute(f"UPDATE attempt SET {assignments} WHERE job = ? AND number = ?", (*values.values(), job, number))


class StoredEvent(NamedTuple):
    """A stored event, as a line of a log."""

    seq: int
    at: str
    text: str


async def job_events(store: Store, job: int, limit: int, after: int = 0) -> list[StoredEvent]:
    """Return the last events, after an event's number, of a job and of the engines it used, oldest first; not those of
    other jobs on these engines."""
    rows = await store.all(
        "SELECT seq, at, text FROM event WHERE seq > ? AND text <> '' AND (job = ? OR (job IS NULL AND engine IN "
        "(SELECT DISTINCT engine FROM event WHERE job = ? AND engine IS NOT NULL))) ORDER BY seq DESC LIMIT ?",
        (after, job, job, limit),
    )
    return [StoredEvent(row["seq"], row["at"], row["text"]) for row in reversed(rows)]


async def engine_events(store: Store, engine: int, limit: int, after: int = 0) -> list[StoredEvent]:
    """Return the last events of one engine, and of all jobs on it, each with its name."""
    rows = await store.all(
        "SELECT seq, at, text, job FROM event WHERE seq > ? AND text <> '' AND engine = ? ORDER BY seq DESC LIMIT ?",
        (after, engine, limit),
    )
    return [
        StoredEvent(row["seq"], row["at"], named(f"j{row['job']}" if row["job"] else "", row["text"]))
        for row in reversed(rows)
    ]


def named(job: str, text: str) -> str:
    """Return an event's text for a place with events of several jobs: with its job's name in front, unless it begins
    with it."""
    return text if not job or text.partition(" ")[0].rstrip(":") == job else f"{job} {text}"


async def ended_jobs(store: Store) -> set[int]:
    """Return the numbers of all jobs that are over."""
    rows = await store.all("SELECT id FROM job WHERE state IN ('done', 'failed', 'stopped')")
    return {int(row["id"]) for row in rows}
