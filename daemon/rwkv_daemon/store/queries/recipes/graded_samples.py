"""Graded samples of a job, some at a time and without their texts, for who makes training rows of them; and the texts
of those that are taken. Read beside the daemon: see `store.beside`."""

from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from rwkv_daemon.store.interface import StoreReader, StoreRow
from rwkv_daemon.store.typed_rows import JobRow

AT_ONCE: Final = 5_000
TEXTS_AT_ONCE: Final = 200
JOBS_AT_ONCE: Final = 500


class SampleFacts(NamedTuple):
    """A sample: its number in the store, its place in the job, its grade, the tokens that were generated for it, and
    how each stage stopped. `text` is that of the last stage if the token limit ended it: only then may it matter.
    `route` names the rule that found the answer, or, where there is no variant, why."""

    number: int
    row: int
    repeat: int
    value: float | None
    reason: str
    tokens: int
    stops: tuple[str, ...]
    text: str
    route: str = ""


async def graded_samples(store: StoreReader, job: int, grade_key: str) -> AsyncIterator[list[SampleFacts]]:
    """Yield all samples of a job that have a grade of this key, in order of row and repeat, thousands at a time."""
    place = (-1, 0)
    while rows := await store.all(
        "SELECT number, row, repeat, value, reason, route FROM sample JOIN grade ON sample = number "
        "AND grade_key = ? WHERE job = ? AND (row, repeat) > (?, ?) ORDER BY row, repeat LIMIT ?",
        (grade_key, job, *place, AT_ONCE),
    ):
        stages = await _stages(store, job, rows[0]["row"], rows[-1]["row"])
        yield [_facts(row, stages.get((row["row"], row["repeat"]), [])) for row in rows]
        place = (rows[-1]["row"], rows[-1]["repeat"])


class RowVerdicts(NamedTuple):
    """How many samples of a row have a verdict, and how many of them are right."""

    row: int
    right: int
    verdicts: int


async def row_verdicts(store: StoreReader, job: JobRow) -> AsyncIterator[RowVerdicts]:
    """Yield what the samples of each row of a job are by its grade, in order, thousands of samples at a time."""
    last = -1
    while rows := await store.all(
        "SELECT row, COUNT(value) AS verdicts, SUM(CASE WHEN value >= 1 THEN 1 ELSE 0 END) AS right_ones "
        "FROM sample JOIN grade ON sample = number AND grade_key = ? WHERE job = ? AND row > ? "
        "GROUP BY row ORDER BY row LIMIT ?",
        (job.grade_key, job.id, last, max(1, AT_ONCE // job.repeats)),
    ):
        for row in rows:
            yield RowVerdicts(row["row"], int(row["right_ones"]), int(row["verdicts"]))
        last = rows[-1]["row"]


async def _stages(store: StoreReader, job: int, first: int, last: int) -> dict[tuple[int, int], list[StoreRow]]:
    found: dict[tuple[int, int], list[StoreRow]] = {}
    for stage in await store.all(
        "SELECT row, repeat, stop, generated_tokens, CASE WHEN stop = 'length' THEN text ELSE '' END AS text "
        "FROM completion WHERE job = ? AND row BETWEEN ? AND ? ORDER BY row, repeat, stage",
        (job, first, last),
    ):
        found.setdefault((stage["row"], stage["repeat"]), []).append(stage)
    return found


def _facts(row: StoreRow, stages: Sequence[StoreRow]) -> SampleFacts:
    return SampleFacts(
        number=row["number"],
        row=row["row"],
        repeat=row["repeat"],
        value=row["value"],
        reason=row["reason"],
        tokens=sum(stage["generated_tokens"] for stage in stages),
        stops=tuple(stage["stop"] for stage in stages),
        text=stages[-1]["text"] if stages else "",
        route=row["route"],
    )


async def texts_of(store: StoreReader, numbers: Sequence[int]) -> dict[int, str]:
    """Return the completion of each of these samples, at most `TEXTS_AT_ONCE`: of jobs whose kind has one stage."""
    places = ", ".join("?" * len(numbers))
    rows = await store.all(
        "SELECT s.number, c.text FROM sample s JOIN completion c ON c.job = s.job AND c.row = s.row "
        f"AND c.repeat = s.repeat WHERE s.number IN ({places})",
        tuple(numbers),
    )
    return {row["number"]: row["text"] for row in rows}


async def writer_was_asked(store: StoreReader, numbers: Sequence[int]) -> dict[int, bool]:
    """Return of each of these samples that is a rewriting whether the writer was asked for it, or it was converted; at
    most `TEXTS_AT_ONCE`. It rewrites the sample with its row and repeat in the job that its job rewrites."""
    places = ", ".join("?" * len(numbers))
    rows = await store.all(
        "SELECT s.number, c.engine FROM sample s JOIN job ON job.id = s.job "
        "JOIN sample o ON o.job = source_job AND o.row = s.row AND o.repeat = s.repeat "
        "JOIN completion c ON c.job = s.job AND c.row = s.row AND c.repeat = s.repeat "
        f"WHERE s.number IN ({places})",
        tuple(numbers),
    )
    return {row["number"]: bool(row["engine"]) for row in rows}


async def verdicts_of(
    store: StoreReader, places: Sequence[tuple[int, int, int]]
) -> dict[tuple[int, int, int, str], float | None]:
    """Return (job, row, repeat, grade key) -> grade, for every grade of the samples at these places: job, row,
    repeat."""
    one = "(CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT))"  # PostgreSQL takes a plain ? for a text here
    rows = await store.all(  # a join with the places, as SQLite would read a whole table for `IN (VALUES ...)`
        f"WITH asked (in_job, in_row, in_repeat) AS (VALUES {', '.join([one] * len(places))}) "
        "SELECT job, row, repeat, grade_key, value FROM asked "
        "JOIN sample ON job = in_job AND row = in_row AND repeat = in_repeat JOIN grade ON sample = number",
        tuple(chain.from_iterable(places)),
    )
    return {(row["job"], row["row"], row["repeat"], row["grade_key"]): row["value"] for row in rows}


async def jobs_numbered(store: StoreReader, numbers: Sequence[int]) -> list[JobRow]:
    """Return jobs by their numbers, deleted ones included."""
    found: list[StoreRow] = []
    for first in range(0, len(numbers), JOBS_AT_ONCE):
        some = tuple(numbers[first : first + JOBS_AT_ONCE])
        found += await store.all(f"SELECT * FROM job WHERE id IN ({', '.join('?' * len(some))})", some)
    return list(map(JobRow.of, found))


async def tokens_of(store: StoreReader, job: int) -> tuple[int, int]:
    """Return how many tokens of prompts and of completions a job has."""
    (row,) = await store.all(
        "SELECT COALESCE(SUM(prompt_tokens), 0) AS prompt, COALESCE(SUM(generated_tokens), 0) AS generated "
        "FROM completion WHERE job = ?",
        (job,),
    )
    return int(row["prompt"]), int(row["generated"])
