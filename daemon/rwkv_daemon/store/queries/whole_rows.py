"""Rows as they are, for the copies that lie beside a job's samples."""

from rwkv_daemon.store.interface import Row, Store


async def job_row(store: Store, job: int) -> Row | None:
    return await store.one("SELECT * FROM job WHERE id = ?", (job,))


async def attempt_row(store: Store, job: int, number: int) -> Row | None:
    """An attempt of a job."""
    return await store.one("SELECT * FROM attempt WHERE job = ? AND number = ?", (job, number))


async def score_row(store: Store, job: int, grade_key: str) -> Row | None:
    """A score of a job."""
    return await store.one("SELECT * FROM score WHERE job = ? AND grade_key = ?", (job, grade_key))


async def engine_row(store: Store, engine: int) -> Row | None:
    return await store.one("SELECT * FROM engine WHERE id = ?", (engine,))
