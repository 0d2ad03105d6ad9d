"""Queries of an import: whether a score is there, and adding its samples, many rows at a time."""

from collections.abc import Iterable, Sequence
from typing import Any

from rwkv_daemon.store.interface import Transaction

COMPLETION = (
    "INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
    "cached_tokens, generated_tokens, engine, seconds) VALUES (?, ?, ?, ?, 1, '[]', ?, ?, '[]', 0, 0, 0, '', 0)"
)
GRADE = (
    "INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail) "
    "SELECT number, ?, ?, ?, ?, ?, ? FROM sample WHERE job = ? AND row = ? AND repeat = ?"
)


async def job_of_key(db: Transaction, grade_key: str) -> int | None:
    """Return the job that has this grade key, read inside the transaction that would add another."""
    row = await db.one(
        "SELECT id FROM job WHERE grade_key = ? AND state <> 'deleted' ORDER BY id LIMIT 1", (grade_key,)
    )
    return int(row["id"]) if row else None


async def imported_scores(db: Transaction, model: str) -> list[tuple[int, str]]:
    """Return (job, score view as JSON) of every imported score of a model."""
    rows = await db.all(
        "SELECT j.id, s.view FROM job j JOIN score s ON s.job = j.id WHERE j.numerics = 'imported' AND j.model = ? "
        "ORDER BY j.id",
        (model,),
    )
    return [(row["id"], row["view"]) for row in rows]


async def forget_import(db: Transaction, job: int) -> None:
    """Remove an imported job with all its rows. It has no attempt and no files."""
    await db.execute("DELETE FROM finding WHERE job = ?", (job,))
    await db.execute("DELETE FROM grade WHERE sample IN (SELECT number FROM sample WHERE job = ?)", (job,))
    for table in ("sample", "completion", "prompt", "score", "search_index", "search_block"):
        await db.execute(f"DELETE FROM {table} WHERE job = ?", (job,))
    await db.execute("DELETE FROM job WHERE id = ?", (job,))


async def has_session(db: Transaction, session: str) -> bool:
    """Whether the session is stored."""
    return await db.one("SELECT id FROM session WHERE id = ?", (session,)) is not None


async def add_prompts(db: Transaction, rows: Iterable[Sequence[Any]]) -> None:
    """Add prompts, given as (job, row, stage, text); one for all repeats."""
    await db.many("INSERT INTO prompt VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", list(rows))


async def add_completions(db: Transaction, rows: Iterable[Sequence[Any]]) -> None:
    """Add completions, given as (job, row, repeat, stage, text, stop), with attempt number 1."""
    await db.many(COMPLETION, list(rows))


async def add_samples(db: Transaction, rows: Iterable[Sequence[Any]]) -> None:
    """Add samples, given as (job, row, repeat), with attempt number 1."""
    await db.many("INSERT INTO sample (job, row, repeat, attempt) VALUES (?, ?, ?, 1)", list(rows))


async def add_grades(db: Transaction, rows: Iterable[Sequence[Any]]) -> None:
    """Add grades to stored samples, given as (grade key, value, reason, expected, extracted, detail, job, row,
    repeat)."""
    await db.many(GRADE, list(rows))
