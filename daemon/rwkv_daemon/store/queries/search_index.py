"""Queries about the search index of the texts of large jobs."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rwkv_daemon.store.interface import Store, StoreRow, Transaction
from rwkv_daemon.store.queries.comparing import GradedRun
from rwkv_daemon.store.typed_rows import JobRow

LEAST_SAMPLES: Final = 10_000
"""Jobs with fewer samples are searched as fast without an index."""


class IndexBlock(NamedTuple):
    """Samples of consecutive rows, and the n-gram filter of their texts."""

    first: int
    last: int
    samples: int
    grams: bytes


async def next_to_index(store: Store) -> JobRow | None:
    """Return the newest finished job whose index is missing, or older than its grades."""
    row = await store.one(
        "SELECT job.* FROM job LEFT JOIN search_index i ON i.job = job.id WHERE job.state = 'done' AND job.done >= ? "
        "AND (i.job IS NULL OR i.finished <> job.finished OR i.grade_key <> job.grade_key) "
        "ORDER BY job.id DESC LIMIT 1",
        (LEAST_SAMPLES,),
    )
    return JobRow.of(row) if row else None


async def is_indexed(store: Store, job: JobRow) -> bool:
    """Whether all samples of a job, as it is graded now, are in the index."""
    row = await store.one(
        "SELECT 1 AS known FROM search_index i JOIN job ON job.id = i.job WHERE i.job = ? AND job.state = 'done' "
        "AND i.finished = job.finished AND i.grade_key = job.grade_key AND i.finished = ? AND i.grade_key = ?",
        (job.id, job.finished, job.grade_key),
    )
    return row is not None


async def blocks(store: Store, job: int, row: int, limit: int) -> list[StoreRow]:
    """Return the next blocks that reach at least to a row."""
    return await store.all(
        "SELECT first, last, samples, grams FROM search_block WHERE job = ? AND first >= "
        "COALESCE((SELECT MAX(first) FROM search_block WHERE job = ? AND first <= ?), 0) AND last >= ? "
        "ORDER BY first LIMIT ?",
        (job, job, row, row, limit),
    )


async def texts(store: Store, run: GradedRun, after: int, upto: int) -> list[tuple[int, str]]:
    """Return (row, text) of everything that is searched, after one row up to another."""
    within = "WHERE job = ? AND row > ? AND row <= ?"
    graded = f"FROM sample JOIN grade ON sample = number AND grade_key = ? {within}"
    place = (run.job, after, upto)
    found: list[tuple[int, str]] = []
    for sql, values in (
        (f"SELECT row, text FROM prompt {within}", place),
        (f"SELECT row, text FROM completion {within}", place),
        (f"SELECT row, expected AS text {graded}", (run.grade_key, *place)),
        (f"SELECT row, extracted AS text {graded} AND extracted IS NOT NULL", (run.grade_key, *place)),
    ):
        found += [(row["row"], row["text"]) for row in await store.all(sql, values)]
    return found


async def samples_of_rows(store: Store, job: int, after: int, upto: int) -> dict[int, int]:
    """Return how many samples each row has, after one row up to another."""
    rows = await store.all(
        "SELECT row, COUNT(*) AS n FROM sample WHERE job = ? AND row > ? AND row <= ? GROUP BY row ORDER BY row",
        (job, after, upto),
    )
    return {row["row"]: row["n"] for row in rows}


async def add_blocks(db: Transaction, job: int, found: Sequence[IndexBlock]) -> None:
    await db.load("search_block", ("job", *IndexBlock._fields), [(job, *block) for block in found])


async def finish_index(db: Transaction, job: JobRow) -> bool:
    """Mark the index of a job as usable, if the job has not changed since it was begun."""
    row = await db.one("SELECT state, finished, grade_key FROM job WHERE id = ?", (job.id,))
    if row is None or tuple(row) != ("done", job.finished, job.grade_key):
        return False
    await db.execute("INSERT INTO search_index VALUES (?, ?, ?)", (job.id, job.grade_key, job.finished))
    return True


async def forget_index(db: Transaction, job: int) -> None:
    """Remove the index of a job."""
    for table in ("search_index", "search_block"):
        await db.execute(f"DELETE FROM {table} WHERE job = ?", (job,))
