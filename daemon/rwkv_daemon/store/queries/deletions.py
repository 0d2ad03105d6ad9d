"""Queries about deleted jobs, and about removing them for good.

A deleted job keeps its rows, in the state `deleted`, which no list asks for; its scores are in a separate table.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.queries.jobs import MOST_NAMED
from rwkv_daemon.store.typed_rows import JobRow
from rwkv_daemon.store.wall_time import now

ROWS_AT_ONCE: Final = 500
"""Rows of a job's benchmark that are removed in one transaction."""
OF_ROWS: Final = (
    "DELETE FROM grade WHERE sample IN (SELECT number FROM sample WHERE job = ? AND row < ?)",
    "DELETE FROM finding WHERE sample IN (SELECT number FROM sample WHERE job = ? AND row < ?)",
    "DELETE FROM sample WHERE job = ? AND row < ?",
    "DELETE FROM completion WHERE job = ? AND row < ?",
    "DELETE FROM prompt WHERE job = ? AND row < ?",
)
"""Statements that remove what a job has for rows of its benchmark; tables that refer to others come first."""


async def put_away(db: Transaction, job: JobRow) -> None:
    """Record that a job is deleted, and move its scores away."""
    await db.execute("INSERT INTO deletion (job, at, was) VALUES (?, ?, ?)", (job.id, now(), job.state))
    await _move_scores(db, job.id, "score", "deleted_score")


async def bring_back(db: Transaction, job: int) -> None:
    """Undo the deletion of a job, and restore its scores."""
    await db.execute("DELETE FROM deletion WHERE job = ?", (job,))
    await _move_scores(db, job, "deleted_score", "score")


async def _move_scores(db: Transaction, job: int, source: str, target: str) -> None:
    columns = "job, grade_key, finished, view"
    await db.execute(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source} WHERE job = ?", (job,))
    await db.execute(f"DELETE FROM {source} WHERE job = ?", (job,))


async def state_before(store: Store, job: int) -> tuple[JobRow, str] | None:
    """Return a deleted job and the state it had; None for one that is not deleted, or is being removed for good."""
    row = await store.one("SELECT job.*, was FROM deletion JOIN job ON id = job WHERE id = ? AND pruned = 0", (job,))
    return (JobRow.of(row), row["was"]) if row else None


async def deleted_before(store: Store, at: str) -> list[str]:
    """Return the jobs that were deleted before a time, in order."""
    rows = await store.all("SELECT job FROM deletion WHERE at < ? AND pruned = 0 ORDER BY job", (at,))
    return [f"j{row['job']}" for row in rows]


async def let_go(db: Transaction, job: int) -> None:
    """Record that a deleted job is to be removed for good."""
    await db.execute("UPDATE deletion SET pruned = 1 WHERE job = ?", (job,))


async def let_go_of(store: Store) -> list[int]:
    """Return the jobs that are to be removed for good."""
    return [row["job"] for row in await store.all("SELECT job FROM deletion WHERE pruned = 1 ORDER BY job")]


async def remove_rows(db: Transaction, job: int) -> bool:
    """Remove a part of a job's rows, the job itself with the last part. Returns False once nothing is left."""
    first = await db.one("SELECT MIN(row) AS row FROM completion WHERE job = ?", (job,))
    rest = await db.one("SELECT MIN(row) AS row FROM sample WHERE job = ?", (job,))
    rows = [found["row"] for found in (first, rest) if found is not None and found["row"] is not None]
    for sql in OF_ROWS:
        await db.execute(sql, (job, min(rows) + ROWS_AT_ONCE if rows else 2**62))
    if rows:
        return True
    for table in ("attempt", "score", "deleted_score", "deletion", "search_index", "search_block"):
        await db.execute(f"DELETE FROM {table} WHERE job = ?", (job,))
    await db.execute("DELETE FROM job WHERE id = ?", (job,))
    return False


async def numbers_in(store: Store, state: str) -> list[int]:
    """Return the numbers of the jobs in a state, in order."""
    return [row["id"] for row in await store.all("SELECT id FROM job WHERE state = ? ORDER BY id", (state,))]


async def measured(store: Store, numbers: Sequence[int]) -> tuple[int, int]:
    """Return (samples, scores) that these jobs have, deleted or not."""
    samples = scores = 0
    for some in batches(numbers):
        places = ", ".join("?" * len(some))
        done = await store.one(f"SELECT COALESCE(SUM(done), 0) AS n FROM job WHERE id IN ({places})", some)
        samples += int(done["n"]) if done else 0
        for table in ("score", "deleted_score"):
            found = await store.one(f"SELECT COUNT(DISTINCT job) AS n FROM {table} WHERE job IN ({places})", some)
            scores += int(found["n"]) if found else 0
    return samples, scores


def batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[first : first + MOST_NAMED] for first in range(0, len(numbers), MOST_NAMED))
