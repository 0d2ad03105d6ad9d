"""Queries about what happened."""

from rwkv_daemon.store.interface import Row, Store


async def events_before(store: Store, before: int, session: str, without: str, limit: int) -> list[Row]:
    """The last events before a number, oldest first, but those of one kind."""
    rows = await store.all(
        "SELECT * FROM event WHERE seq < ? AND kind <> ? AND (? = '' OR session = ?) ORDER BY seq DESC LIMIT ?",
        (before, without, session, session, limit),
    )
    return rows[::-1]
