"""Queries about completions, samples, grades and scores."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiosqlite

from rwkv_daemon.rundir import Record, SampleRecord, StageRecord
from rwkv_daemon.store.connection import Store
from rwkv_daemon.store.jobs import as_json
from rwkv_daemon.store.rows import SampleCounts


async def ingest(
    db: aiosqlite.Connection, job: int, attempt: int, grade_key: str, records: Sequence[Record], offset: int
) -> SampleCounts:
    """Store records and advance the attempt's offset, in the caller's transaction. What is there already is left as it
    is, so a slice may be ingested twice."""
    stages = [record for record in records if isinstance(record, StageRecord)]
    await db.executemany(
        "INSERT OR IGNORE INTO prompt VALUES (?, ?, ?, ?)",
        [(job, s.row, s.stage, s.prompt) for s in stages if s.prompt is not None],
    )
    await db.executemany(
        f"INSERT OR IGNORE INTO completion VALUES ({', '.join('?' * 15)})",
        [completion_row(job, attempt, s) for s in stages],
    )
    for record in records:
        if isinstance(record, SampleRecord):
            await add_sample(db, job, attempt, grade_key, record)
    await db.execute("UPDATE attempt SET ingested = ? WHERE job = ? AND number = ?", (offset, job, attempt))
    return await refresh_counts(db, job, grade_key)


def completion_row(job: int, attempt: int, s: StageRecord) -> tuple[Any, ...]:
    return (
        job, s.row, s.repeat, s.stage, attempt, as_json(s.ids), s.text, s.stop, as_json(s.logprobs),
        s.prompt_tokens, s.cached, s.generated, s.engine, s.seconds, as_json(s.greedy),
    )  # fmt: skip


async def add_sample(db: aiosqlite.Connection, job: int, attempt: int, grade_key: str, record: SampleRecord) -> None:
    """One finished sample and its grade under this key; what is there stays as it is."""
    await db.execute(
        "INSERT OR IGNORE INTO sample (job, row, repeat, attempt) VALUES (?, ?, ?, ?)",
        (job, record.row, record.repeat, attempt),
    )
    await db.execute(
        "INSERT OR IGNORE INTO grade (sample, grade_key, value, reason, expected, extracted, detail, route, parts) "
        "SELECT number, ?, ?, ?, ?, ?, ?, ?, ? FROM sample WHERE job = ? AND row = ? AND repeat = ?",
        (grade_key, record.value, record.reason, record.expected, record.extracted, record.detail, record.route,
         as_json(record.parts), job, record.row, record.repeat),
    )  # fmt: skip


async def forget_errors(db: aiosqlite.Connection, job: int, grade_key: str) -> int:
    """Take back the grades under this key that are errors, so that they are made again; returns how many. What waits
    for a judge stays: the judge is asked again."""
    cursor = await db.execute(
        "DELETE FROM grade WHERE grade_key = ? AND value IS NULL AND reason NOT IN ('unjudged', 'dropped') "
        "AND sample IN (SELECT number FROM sample WHERE job = ?)",
        (grade_key, job),
    )
    return cursor.rowcount


async def count_unjudged(store: Store, job: int, grade_key: str) -> int:
    """Samples that wait for the judge."""
    row = await store.one(
        "SELECT COUNT(*) AS n FROM sample JOIN grade ON sample = number AND grade_key = ? AND reason = 'unjudged' "
        "WHERE job = ?",
        (grade_key, job),
    )
    return int(row["n"]) if row else 0


async def refresh_counts(db: aiosqlite.Connection, job: int, grade_key: str) -> SampleCounts:
    """Count what is stored and keep it on the job."""
    rows = await db.execute_fetchall(
        "SELECT COUNT(*) AS done, COALESCE(SUM(value), 0) AS right_sum, "
        "(SELECT COUNT(*) FROM completion WHERE job = ?1) AS stages_done "
        "FROM sample JOIN grade ON sample = number AND grade_key = ?2 WHERE job = ?1",
        (job, grade_key),
    )
    row = next(iter(rows))
    counts = SampleCounts(row["done"], row["stages_done"], row["right_sum"])
    await db.execute(
        "UPDATE job SET done = ?, stages_done = ?, right_sum = ? WHERE id = ?",
        (counts.done, counts.stages_done, counts.right_sum, job),
    )
    return counts


@dataclass(frozen=True, slots=True)
class GradedSample:
    """A sample as statistics need it: its verdict, how each stage stopped, and the last stage's text."""

    row: int
    repeat: int
    value: float | None
    extracted: str | None
    reason: str
    route: str
    parts: dict[str, float]
    stops: tuple[str, ...]
    text: str


async def graded(store: Store, job: int, grade_key: str) -> list[GradedSample]:
    """Every sample of a job that has a grade under this key."""
    ends: dict[tuple[int, int], list[sqlite3.Row]] = {}
    # Only a text that was cut off may turn out to be whole all the same; the others need not be read.
    stages = (
        "SELECT row, repeat, stop, CASE WHEN stop = 'length' THEN text ELSE '' END AS text FROM completion "
        "WHERE job = ? ORDER BY row, repeat, stage"
    )
    for end in await store.all(stages, (job,)):
        ends.setdefault((end["row"], end["repeat"]), []).append(end)
    rows = await store.all(
        "SELECT row, repeat, value, extracted, reason, route, parts FROM sample "
        "JOIN grade ON sample = number AND grade_key = ? WHERE job = ?",
        (grade_key, job),
    )
    samples = []
    for r in rows:
        own = ends.get((r["row"], r["repeat"]), [])
        stops, text = tuple(end["stop"] for end in own), own[-1]["text"] if own else ""
        verdict = (r["value"], r["extracted"], r["reason"], r["route"], json.loads(r["parts"]))
        samples.append(GradedSample(r["row"], r["repeat"], *verdict, stops, text))
    return samples


async def totals(store: Store, job: int) -> sqlite3.Row:
    """Tokens and engine seconds of a job."""
    row = await store.one(
        "SELECT COALESCE(SUM(prompt_tokens), 0) AS prompt_tokens, COALESCE(SUM(cached_tokens), 0) AS cached_tokens, "
        "COALESCE(SUM(generated_tokens), 0) AS generated_tokens, COALESCE(SUM(seconds), 0) AS seconds, "
        "GROUP_CONCAT(DISTINCT engine) AS engines FROM completion WHERE job = ?",
        (job,),
    )
    assert row is not None
    return row


async def page(
    store: Store, job: int, grade_key: str, *, wrong: bool, latest: bool, after: int, limit: int
) -> list[sqlite3.Row]:
    """Samples with their grades: in row order after the cursor (row * 2^20 + repeat), or the newest first."""
    order = "number DESC" if latest else "row, repeat"
    wanted = " AND (value IS NULL OR value < 1) AND reason <> 'dropped'" if wrong else ""
    return await store.all(
        "SELECT number, row, repeat, value, reason, expected, extracted, detail, route, parts, judge FROM sample "
        f"JOIN grade ON sample = number AND grade_key = ? WHERE job = ? AND row * 1048576 + repeat > ?{wanted} "
        f"ORDER BY {order} LIMIT ?",
        (grade_key, job, after, limit),
    )


async def stages_of(store: Store, job: int, row: int, repeat: int) -> list[sqlite3.Row]:
    """The stages of one sample with their prompts."""
    return await store.all(
        "SELECT c.stage, COALESCE(p.text, '') AS prompt, c.text, c.stop, c.prompt_tokens, c.generated_tokens "
        "FROM completion c LEFT JOIN prompt p ON p.job = c.job AND p.row = c.row AND p.stage = c.stage "
        "WHERE c.job = ? AND c.row = ? AND c.repeat = ? ORDER BY c.stage",
        (job, row, repeat),
    )


async def add_score(db: aiosqlite.Connection, job: int, grade_key: str, finished: str, view: str) -> None:
    """The score of a job under one grade key."""
    await db.execute("INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?)", (job, grade_key, finished, view))


async def scores(
    store: Store, *, model: str, benchmark: str, session: str, all_versions: bool, limit: int
) -> list[str]:
    """Score views as JSON, newest job first; only the newest of each (model, benchmark, kind) unless asked for all."""
    conditions, parameters = ["1"], []
    for column, value in (("model", model), ("benchmark", benchmark), ("session", session)):
        if value:
            conditions.append(f"j.{column} = ?")
            parameters.append(value)
    if not all_versions:
        conditions.append(
            "j.id = (SELECT MAX(k.id) FROM job k JOIN score t ON t.job = k.id "
            "WHERE k.model = j.model AND k.benchmark = j.benchmark AND k.kind = j.kind "
            "AND (k.numerics = 'imported') = (j.numerics = 'imported')) "  # an import never hides a score of ours
            "AND s.finished = (SELECT MAX(u.finished) FROM score u WHERE u.job = s.job)"
        )
    rows = await store.all(
        f"SELECT s.view FROM score s JOIN job j ON j.id = s.job WHERE {' AND '.join(conditions)} "
        "ORDER BY s.job DESC, s.finished DESC LIMIT ?",
        (*parameters, limit),
    )
    return [row["view"] for row in rows]


async def score_of(store: Store, job: int) -> str | None:
    """The newest score view of one job as JSON."""
    row = await store.one("SELECT view FROM score WHERE job = ? ORDER BY finished DESC", (job,))
    return row["view"] if row else None
