"""Queries about events: the numbered record of what has happened on the node."""

from rwkv_daemon.store.interface import Store, StoreRow, Transaction


async def events_before(store: Store, before: int, session: str, without: str, limit: int) -> list[StoreRow]:
    """Return the last events before a number, oldest first, except those of one kind."""
    rows = await store.all(
        "SELECT * FROM event WHERE seq < ? AND kind <> ? AND (? = '' OR session = ?) ORDER BY seq DESC LIMIT ?",
        (before, without, session, session, limit),
    )
    return rows[::-1]


async def events_after(store: Store, after: int, session: str, without: str, limit: int) -> list[StoreRow]:
    """Return events after a number, oldest first, except those of one kind."""
    return await store.all(
        "SELECT * FROM event WHERE seq > ? AND kind <> ? AND (? = '' OR session = ?) ORDER BY seq LIMIT ?",
        (after, without, session, session, limit),
    )


async def newest_number(store: Store) -> int:
    """Return the number of the last stored event; 0 if there is none."""
    row = await store.one("SELECT COALESCE(MAX(seq), 0) AS seq FROM event")
    return int(row["seq"]) if row else 0


async def number_at(store: Store, at: str) -> int:
    """Return the number of the last stored event before a time; 0 if there is none."""
    row = await store.one("SELECT COALESCE(MAX(seq), 0) AS seq FROM event WHERE at < ?", (at,))
    return int(row["seq"]) if row else 0


async def add_event(
    db: Transaction, at: str, kind: str, job: int | None, engine: int | None, session: str, text: str, data: str
) -> int:
    """Store an event; returns its number."""
    row = await db.one(
        "INSERT INTO event (at, kind, job, engine, session, text, data) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING seq",
        (at, kind, job, engine, session, text, data),
    )
    assert row is not None
    return int(row["seq"])
