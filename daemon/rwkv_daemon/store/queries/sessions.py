"""Queries about sessions: jobs that were dispatched together."""

from rwkv_daemon.store.interface import Store, StoreRow


async def session_row(store: Store, session: str) -> StoreRow | None:
    return await store.one("SELECT * FROM session WHERE id = ?", (session,))


async def session_of_job(store: Store, job: int) -> StoreRow | None:
    """Return the row of the session that a job belongs to; None if there is no such job."""
    return await store.one(
        "SELECT session.* FROM session JOIN job ON job.session = session.id WHERE job.id = ?", (job,)
    )


async def selection_of(store: Store, session: str) -> str:
    """Return the selection of a session as JSON; empty if there is no such session."""
    row = await store.one("SELECT selection FROM session WHERE id = ?", (session,))
    return row["selection"] if row else ""
