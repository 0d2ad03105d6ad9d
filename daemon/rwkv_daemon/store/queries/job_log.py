"""Queries about all jobs that were ever queued, and who dispatched them; and sums over all jobs."""

from typing import Any

from rwkv_daemon.store.interface import Store, StoreRow


async def logged(
    store: Store, *, since: str, session: str, model: str, before: int, limit: int, at: str = "", until: str = ""
) -> list[StoreRow]:
    """Return one page of jobs, newest first, each with its newest score's view (None: no score) and who dispatched its
    session (None: not recorded). `at`: only jobs that ran then, or at any moment between then and `until`. Empty values
    and 0 do not filter."""
    return await store.all(
        "SELECT job.*, score.view AS score, "
        "(SELECT MIN(audit.name) FROM audit WHERE audit.target = job.session) AS who "
        "FROM job LEFT JOIN score ON score.job = job.id AND score.grade_key = job.grade_key "
        "WHERE job.state <> 'deleted' "
        "AND (? = '' OR job.queued >= ?) AND (? = '' OR job.session = ?) AND (? = '' OR job.model = ?) "
        "AND (? = '' OR (job.started <> '' AND job.started <= ? AND (job.finished = '' OR job.finished > ?))) "
        "AND job.id < ? ORDER BY job.id DESC LIMIT ?",
        (since, since, session, session, model, model, at, until or at, at, before or 2**62, limit),
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
