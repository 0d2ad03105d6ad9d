"""Queries about rewritings: which samples of a job are right, and which jobs rewrite them."""

from typing import NamedTuple

from rwkv_daemon.store.interface import Store
from rwkv_daemon.store.typed_rows import JobRow


class RightSamples(NamedTuple):
    """How many samples of a job are right, and the tokens of their completions."""

    samples: int
    tokens: int


async def right_samples(store: Store, job: int, grade_key: str) -> RightSamples:
    """Return how many samples of a job are right under a grade key."""
    row = await store.one(
        "SELECT COUNT(*) AS n, COALESCE(SUM(generated_tokens), 0) AS tokens FROM sample s "
        "JOIN grade ON sample = number AND grade_key = ? AND value >= 1 "
        "JOIN completion c ON c.job = s.job AND c.row = s.row AND c.repeat = s.repeat WHERE s.job = ?",
        (grade_key, job),
    )
    return RightSamples(int(row["n"]), int(row["tokens"])) if row else RightSamples(0, 0)


async def places_of_right(store: Store, job: int, grade_key: str) -> list[tuple[int, int]]:
    """Return the (row, repeat) of each sample of a job that is right under a grade key, in order."""
    rows = await store.all(
        "SELECT row, repeat FROM sample JOIN grade ON sample = number AND grade_key = ? AND value >= 1 "
        "WHERE job = ? ORDER BY row, repeat",
        (grade_key, job),
    )
    return [(row["row"], row["repeat"]) for row in rows]


async def rewritings_of(store: Store, job: int) -> list[JobRow]:
    """Return the jobs that rewrite the samples of a job, newest first."""
    rows = await store.all("SELECT * FROM job WHERE source_job = ? AND state <> 'deleted' ORDER BY id DESC", (job,))
    return list(map(JobRow.of, rows))
