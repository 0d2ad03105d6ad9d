"""Queries about all jobs that were ever queued, and who dispatched them; and sums over all jobs."""

from typing import Any

from rwkv_daemon.store.interface import Store, StoreRow
from rwkvctl.protocol.record import JobLogRequest


async def logged(store: Store, asked: JobLogRequest, limit: int) -> list[StoreRow]:
    """Return one page of the jobs that are asked for, newest first, each with its newest score's view (None: no score),
    who dispatched its session (None: not recorded), and that session's suite and note. Empty values do not filter."""
    before = max(0, min(asked.before, 2**62)) or 2**62
    of_suite = "job.session IN (SELECT id FROM session WHERE suite = ? AND suite <> '')"
    ran = "job.started <> '' AND job.started <= ? AND (job.finished = '' OR job.finished > ?)"
    conditions: dict[str, tuple[str, ...]] = {
        "job.queued >= ?": (asked.since,) if asked.since else (),
        "job.session = ?": (asked.session,) if asked.session else (),
        "job.model = ?": (asked.model,) if asked.model else (),
        of_suite: (asked.suite,) if asked.suite else (),
        ran: (asked.until or asked.at, asked.at) if asked.at else (),
    }
    asked_for = "".join(f"AND ({condition}) " for condition, values in conditions.items() if values)
    return await store.all(
        "SELECT job.*, score.view AS score, session.suite, session.note, "
        "(SELECT MIN(audit.name) FROM audit WHERE audit.target = job.session) AS who "
        "FROM job LEFT JOIN session ON session.id = job.session "
        "LEFT JOIN score ON score.job = job.id AND score.grade_key = job.grade_key "
        "WHERE job.state <> 'deleted' "
        f"{asked_for}AND job.id < ? ORDER BY job.id DESC LIMIT ?",
        (*(value for values in conditions.values() for value in values), before, limit),
    )


async def sums(store: Store) -> dict[str, Any]:
    """Return how many samples and scores are stored, and when the oldest queued job was queued."""
    jobs = await store.one("SELECT COALESCE(SUM(done), 0) AS samples FROM job WHERE done > 0")
    scores = await store.one("SELECT COUNT(*) AS n FROM score")
    oldest = await store.one("SELECT queued AS at FROM job WHERE state = 'queued' ORDER BY id LIMIT 1")
    return {
        "samples": jobs["samples"] if jobs else 0,
        "scores": scores["n"] if scores else 0,
        "oldest": oldest["at"] if oldest else None,
    }
