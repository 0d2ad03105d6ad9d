"""Queries about what happened."""

from rwkv_daemon.store.interface import Row, Store


async def events_before(store: Store, before: int, session: str, limit: int) -> list[Row]:
    """The last events before a number, oldest first."""
    rows = await store.all(
        "SELECT * FROM event WHERE seq < ? AND (? = '' OR session = ?) ORDER BY seq DESC LIMIT ?",
        (before, session, session, limit),
    )
    return rows[::-1]
