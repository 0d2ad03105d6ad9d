"""Whole rows, for the copies in run directories."""

from rwkv_daemon.store.interface import Store, StoreRow


async def job_row(store: Store, job: int) -> StoreRow | None:
    return await store.one("SELECT * FROM job WHERE id = ?", (job,))


async def attempt_row(store: Store, job: int, number: int) -> StoreRow | None:
    """Return all columns of an attempt; None if there is none."""
    return await store.one("SELECT * FROM attempt WHERE job = ? AND number = ?", (job, number))


async def score_row(store: Store, job: int, grade_key: str) -> StoreRow | None:
    """Return all columns of the score under a grade key; None if there is none."""
    return await store.one("SELECT * FROM score WHERE job = ? AND grade_key = ?", (job, grade_key))


async def engine_row(store: Store, engine: int) -> StoreRow | None:
    return await store.one("SELECT * FROM engine WHERE id = ?", (engine,))
