"""Queries about rewritings: which samples of a job are right, and which jobs rewrite them."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from rwkv_daemon.store.interface import Store, StoreReader
from rwkv_daemon.store.typed_rows import JobRow

AT_ONCE: Final = 1_000
"""They are read in the daemon, and those that the token limit ended with their texts."""


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


async def shortest_of_several(store: Store, job: int, grade_key: str) -> RightSamples:
    """Return how many rows of a job have right samples of different lengths under a grade key, and the tokens of the
    shortest ones. Whether one was cut off does not count here."""
    row = await store.one(
        "SELECT COUNT(*) AS n, COALESCE(SUM(shortest), 0) AS tokens FROM ("
        "SELECT MIN(generated_tokens) AS shortest, MAX(generated_tokens) AS longest FROM sample s "
        "JOIN grade ON sample = number AND grade_key = ? AND value >= 1 "
        "JOIN completion c ON c.job = s.job AND c.row = s.row AND c.repeat = s.repeat WHERE s.job = ? GROUP BY s.row"
        ") AS right_rows WHERE shortest < longest",
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


class RightCompletion(NamedTuple):
    """A right sample of a kind with one stage: its number in the store, its place in the job, its tokens and how it
    stopped. `text` is the completion if the token limit ended it: only then may it matter."""

    number: int
    row: int
    repeat: int
    tokens: int
    stop: str
    text: str


async def right_completions(store: StoreReader, job: int, grade_key: str) -> AsyncIterator[list[RightCompletion]]:
    """Yield the right samples of a job under a grade key in order of row and repeat, thousands at a time."""
    place = (-1, 0)
    while rows := await store.all(
        "SELECT s.number, s.row, s.repeat, generated_tokens, stop, CASE WHEN stop = 'length' THEN text ELSE '' END "
        "AS text FROM sample s JOIN grade ON sample = number AND grade_key = ? AND value >= 1 "
        "JOIN completion c ON c.job = s.job AND c.row = s.row AND c.repeat = s.repeat "
        "WHERE s.job = ? AND (s.row, s.repeat) > (?, ?) ORDER BY s.row, s.repeat LIMIT ?",
        (grade_key, job, *place, AT_ONCE),
    ):
        yield [
            RightCompletion(row["number"], row["row"], row["repeat"], row["generated_tokens"], row["stop"], row["text"])
            for row in rows
        ]
        place = (rows[-1]["row"], rows[-1]["repeat"])


async def rewritings_of(store: Store, job: int) -> list[JobRow]:
    """Return the jobs that rewrite the samples of a job, newest first."""
    rows = await store.all("SELECT * FROM job WHERE source_job = ? AND state <> 'deleted' ORDER BY id DESC", (job,))
    return list(map(JobRow.of, rows))
