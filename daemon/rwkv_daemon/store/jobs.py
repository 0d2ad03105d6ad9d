"""Queries about sessions, jobs and their attempts."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

import aiosqlite

from rwkv_daemon.clock import now
from rwkv_daemon.store.connection import Store
from rwkv_daemon.store.rows import AttemptRow, JobRow, NewJob

OPEN = ("held", "queued", "starting", "generating", "grading", "judging", "paused", "stopping")
ACTIVE = ("starting", "generating", "grading", "judging", "stopping")


async def add_session(
    db: aiosqlite.Connection, session: str, selection: str, host: str, versions: Sequence[str]
) -> None:
    """Store a dispatch: its id, flags, host, and (rwkvctl version, git commit)."""
    await db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", (session, now(), selection, host, *versions))


async def add_job(db: aiosqlite.Connection, session: str, job: NewJob) -> int:
    """Queue a job as the next version of its (model, benchmark, kind); returns its number."""
    values = asdict(job) | {"session": session, "queued": now()}
    names = ", ".join(values)
    cursor = await db.execute(
        f"INSERT INTO job ({names}, version) SELECT {', '.join('?' * len(values))}, 1 + COALESCE(MAX(version), 0) "
        "FROM job WHERE model = ? AND benchmark = ? AND kind = ?",
        (*values.values(), job.model, job.benchmark, job.kind),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


async def update_job(db: aiosqlite.Connection, job: int, **values: Any) -> None:
    """Set columns of one job."""
    assert values.keys() <= {field.name for field in fields(JobRow)}, values
    assignments = ", ".join(f"{name} = ?" for name in values)
    await db.execute(f"UPDATE job SET {assignments} WHERE id = ?", (*values.values(), job))


async def get_job(store: Store, job: int) -> JobRow | None:
    """One job."""
    row = await store.one("SELECT * FROM job WHERE id = ?", (job,))
    return JobRow.of(row) if row else None


async def jobs_in(store: Store, states: Iterable[str], *, session: str = "", limit: int = 1000) -> list[JobRow]:
    """Jobs in queue order: highest priority first, then oldest."""
    wanted = tuple(states)
    clause, parameters = session_clause(session)
    rows = await store.all(
        f"SELECT * FROM job WHERE state IN ({', '.join('?' * len(wanted))}){clause} ORDER BY priority DESC, id LIMIT ?",
        (*wanted, *parameters, limit),
    )
    return [JobRow.of(row) for row in rows]


async def jobs_to_check(store: Store) -> list[JobRow]:
    """Finished jobs whose wrong answers the checker is to look at, oldest first."""
    rows = await store.all("SELECT * FROM job WHERE checking = 'wanted' AND state = 'done' ORDER BY id LIMIT 16")
    return [JobRow.of(row) for row in rows]


async def newest_jobs(store: Store, *, state: str, session: str, before: int, limit: int) -> list[JobRow]:
    """One page of jobs, newest first."""
    clause, parameters = session_clause(session)
    if state:
        clause, parameters = f"{clause} AND state = ?", (*parameters, state)
    rows = await store.all(
        f"SELECT * FROM job WHERE id < ?{clause} ORDER BY id DESC LIMIT ?", (before or 2**62, *parameters, limit)
    )
    return [JobRow.of(row) for row in rows]


async def finished_jobs(store: Store, *, session: str, limit: int) -> list[JobRow]:
    """The jobs that ended last, newest first. (`+state`: walk back by id rather than sort all that ever ended.)"""
    clause, parameters = session_clause(session)
    rows = await store.all(
        f"SELECT * FROM job WHERE +state IN ('done', 'failed', 'stopped'){clause} ORDER BY id DESC LIMIT ?",
        (*parameters, limit),
    )
    return [JobRow.of(row) for row in rows]


async def counts(store: Store, session: str = "") -> dict[str, int]:
    """How many jobs are in each state."""
    clause, parameters = session_clause(session)
    rows = await store.all(f"SELECT state, COUNT(*) AS n FROM job WHERE 1{clause} GROUP BY state", parameters)
    return {row["state"]: row["n"] for row in rows}


def session_clause(session: str) -> tuple[str, tuple[Any, ...]]:
    return (" AND session = ?", (session,)) if session else ("", ())


async def known_work(store: Store) -> tuple[dict[str, str], list[JobRow]]:
    """(grade key -> job with its score), and the unfinished jobs, oldest first."""
    scored = await store.all("SELECT grade_key, MAX(job) AS job FROM score GROUP BY grade_key")
    rows = await store.all("SELECT * FROM job WHERE state <> 'done' ORDER BY id")
    return {row["grade_key"]: f"j{row['job']}" for row in scored}, [JobRow.of(row) for row in rows]


async def generated_work(store: Store) -> dict[str, str]:
    """generation key -> the newest job that generated it whole."""
    rows = await store.all(
        "SELECT generation_key, MAX(id) AS job FROM job WHERE state = 'done' AND stages_done >= stages * total "
        "AND total > 0 AND numerics <> 'imported' GROUP BY generation_key"
    )
    return {row["generation_key"]: f"j{row['job']}" for row in rows}


async def add_attempt(db: aiosqlite.Connection, job: int, number: int, uuid: str) -> None:
    """A runner is about to be started."""
    await db.execute(
        "INSERT INTO attempt (job, number, uuid, state, started) VALUES (?, ?, ?, 'running', ?)",
        (job, number, uuid, now()),
    )


async def end_attempt(
    db: aiosqlite.Connection, job: int, number: int, *, code: int | None, signal: int | None, lost: bool
) -> None:
    """A runner is gone: with its exit, or lost without one."""
    await db.execute(
        "UPDATE attempt SET state = ?, ended = ?, code = ?, signal = ? WHERE job = ? AND number = ?",
        ("lost" if lost else "ended", now(), code, signal, job, number),
    )


async def attempts_of(store: Store, job: int) -> list[AttemptRow]:
    """Every attempt of a job, oldest first."""
    rows = await store.all("SELECT * FROM attempt WHERE job = ? ORDER BY number", (job,))
    return [AttemptRow.of(row) for row in rows]


async def running_attempts(store: Store) -> list[AttemptRow]:
    """Attempts that were running when the daemon last looked."""
    rows = await store.all("SELECT * FROM attempt WHERE state = 'running' ORDER BY job")
    return [AttemptRow.of(row) for row in rows]


async def remember_reply(db: aiosqlite.Connection, request_id: str, reply: bytes) -> None:
    """Keep the answer to a mutation for a client that repeats it."""
    if request_id:
        await db.execute("INSERT OR IGNORE INTO request VALUES (?, ?, ?)", (request_id, now(), reply))


async def remembered_reply(store: Store, request_id: str) -> bytes | None:
    """The answer this request id got before, or None."""
    row = await store.one("SELECT reply FROM request WHERE id = ?", (request_id,)) if request_id else None
    return bytes(row["reply"]) if row else None


async def sha256_of(store: Store, identity: tuple[int, int, int, int]) -> tuple[str, str]:
    """(sha256, why it does not load) of a file by (device, inode, size, mtime_ns); empty if not hashed yet."""
    row = await store.one(
        "SELECT sha256, broken FROM weights WHERE device = ? AND inode = ? AND size = ? AND mtime_ns = ?", identity
    )
    return (row["sha256"], row["broken"]) if row else ("", "")


async def remember_sha256(
    db: aiosqlite.Connection, identity: tuple[int, int, int, int], sha256: str, path: str, name: str
) -> None:
    """Fill the cache, and list the model."""
    await db.execute(
        "INSERT OR REPLACE INTO weights (device, inode, size, mtime_ns, sha256, path) VALUES (?, ?, ?, ?, ?, ?)",
        (*identity, sha256, path),
    )
    await db.execute("INSERT OR IGNORE INTO model VALUES (?, ?, ?, ?, ?)", (sha256, name, path, identity[2], now()))


async def count_load_failure(db: aiosqlite.Connection, sha256: str, detail: str) -> int:
    """One more failed load of these weights; from the second on they count as broken. Returns how many."""
    await db.execute(
        "UPDATE weights SET load_failures = load_failures + 1, "
        "broken = CASE WHEN load_failures >= 1 THEN ? ELSE broken END WHERE sha256 = ?",
        (detail, sha256),
    )
    rows = await db.execute_fetchall("SELECT MAX(load_failures) AS n FROM weights WHERE sha256 = ?", (sha256,))
    return int(next(iter(rows))["n"] or 0)


async def forget_load_failures(db: aiosqlite.Connection, sha256: str) -> None:
    """The operator resumes a job of these weights, or they did load: start counting afresh."""
    await db.execute("UPDATE weights SET load_failures = 0, broken = '' WHERE sha256 = ?", (sha256,))


async def remember_benchmark(db: aiosqlite.Connection, values: Sequence[Any]) -> None:
    """(rows sha256, name, version, split, rows, licence, source) of a row set that is about to be measured."""
    await db.execute("INSERT OR IGNORE INTO benchmark VALUES (?, ?, ?, ?, ?, ?, ?)", tuple(values))


def as_json(value: object) -> str:
    """How the store spells a nested value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
