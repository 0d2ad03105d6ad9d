"""Queries about jobs that were deleted: out of sight first, and removed for good by a prune.

A deleted job keeps its rows, in the state `deleted`, which no list asks for; its scores lie in a table of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.queries.jobs import MOST_NAMED
from rwkv_daemon.store.typed_rows import JobRow
from rwkv_daemon.store.wall_time import now

ROWS_AT_ONCE: Final = 500
"""Rows of a job's benchmark that one transaction removes."""
OF_ROWS: Final = (
    "DELETE FROM grade WHERE sample IN (SELECT number FROM sample WHERE job = ? AND row < ?)",
    "DELETE FROM finding WHERE sample IN (SELECT number FROM sample WHERE job = ? AND row < ?)",
    "DELETE FROM sample WHERE job = ? AND row < ?",
    "DELETE FROM completion WHERE job = ? AND row < ?",
    "DELETE FROM prompt WHERE job = ? AND row < ?",
)
"""What a job has for rows of its benchmark, what refers to others first."""


async def put_away(db: Transaction, job: JobRow) -> None:
    """Note that a job is deleted, and take its scores away."""
    await db.execute("INSERT INTO deletion (job, at, was) VALUES (?, ?, ?)", (job.id, now(), job.state))
    await _move_scores(db, job.id, "score", "deleted_score")


async def bring_back(db: Transaction, job: int) -> None:
    """Forget that a job was deleted, and give its scores back."""
    await db.execute("DELETE FROM deletion WHERE job = ?", (job,))
    await _move_scores(db, job, "deleted_score", "score")


async def _move_scores(db: Transaction, job: int, source: str, target: str) -> None:
    columns = "job, grade_key, finished, view"
    await db.execute(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source} WHERE job = ?", (job,))
    await db.execute(f"DELETE FROM {source} WHERE job = ?", (job,))


async def state_before(store: Store, job: int) -> tuple[JobRow, str] | None:
    """A deleted job and the state it had; None for one that is not deleted, or is being removed for good."""
    row = await store.one("SELECT job.*, was FROM deletion JOIN job ON id = job WHERE id = ? AND pruned = 0", (job,))
    return (JobRow.of(row), row["was"]) if row else None


async def deleted_before(store: Store, at: str) -> list[str]:
    """The jobs that were deleted before a time, in order."""
    rows = await store.all("SELECT job FROM deletion WHERE at < ? AND pruned = 0 ORDER BY job", (at,))
    return [f"j{row['job']}" for row in rows]


async def let_go(db: Transaction, job: int) -> None:
    """Note that a deleted job is to be removed for good."""
    await db.execute("UPDATE deletion SET pruned = 1 WHERE job = ?", (job,))


async def let_go_of(store: Store) -> list[int]:
    """The jobs that are to be removed for good."""
    return [row["job"] for row in await store.all("SELECT job FROM deletion WHERE pruned = 1 ORDER BY job")]


async def remove_rows(db: Transaction, job: int) -> bool:
    """Remove a part of what a job has; the job itself with the last one. False once nothing is left."""
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
    """The jobs in a state, by number."""
    return [row["id"] for row in await store.all("SELECT id FROM job WHERE state = ? ORDER BY id", (state,))]


async def measured(store: Store, numbers: Sequence[int]) -> tuple[int, int]:
    """(samples, scores) that these jobs have, deleted or not."""
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
