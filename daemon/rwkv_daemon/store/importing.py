"""Queries that an import needs: is it there, and its samples, many rows at a time."""

from collections.abc import Iterable, Sequence
from typing import Any

import aiosqlite

COMPLETION = (
    "INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
    "cached_tokens, generated_tokens, engine, seconds) VALUES (?, ?, ?, ?, 1, '[]', ?, ?, '[]', 0, 0, 0, '', 0)"
)
GRADE = (
    "INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail) "
    "SELECT number, ?, ?, ?, ?, ?, ? FROM sample WHERE job = ? AND row = ? AND repeat = ?"
)


async def job_of_key(db: aiosqlite.Connection, grade_key: str) -> int | None:
    """The job that has this grade key, asked inside the transaction that would add another."""
    rows = await db.execute_fetchall("SELECT MIN(id) AS id FROM job WHERE grade_key = ?", (grade_key,))
    found = next(iter(rows))["id"]
    return None if found is None else int(found)


async def has_session(db: aiosqlite.Connection, session: str) -> bool:
    """Whether the session is stored."""
    return bool(await db.execute_fetchall("SELECT 1 FROM session WHERE id = ?", (session,)))


async def add_prompts(db: aiosqlite.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """(job, row, stage, text); one for all repeats."""
    await db.executemany("INSERT OR IGNORE INTO prompt VALUES (?, ?, ?, ?)", rows)


async def add_completions(db: aiosqlite.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """(job, row, repeat, stage, text, stop)."""
    await db.executemany(COMPLETION, rows)


async def add_samples(db: aiosqlite.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """(job, row, repeat)."""
    await db.executemany("INSERT INTO sample (job, row, repeat, attempt) VALUES (?, ?, ?, 1)", rows)


async def add_grades(db: aiosqlite.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """(grade key, value, reason, expected, extracted, detail, job, row, repeat) of samples that are there."""
    await db.executemany(GRADE, rows)
