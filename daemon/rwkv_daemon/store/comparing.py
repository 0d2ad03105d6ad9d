"""Queries that a comparison needs: scores with their jobs, and graded samples with what was expected."""

from typing import Any

from rwkv_daemon.store.interface import Row, Store
from rwkv_daemon.store.rows import JobRow

COLUMNS = "j.id, j.benchmark, j.kind, j.version, s.grade_key, s.view"


async def scores_of_job(store: Store, job: int) -> list[Row]:
    """Every score of a job (one a grade key), newest first."""
    return await _scores(store, "j.id = ?", (job,))


async def scores_of_model(store: Store, model: str, version: int | None = None) -> list[Row]:
    """Every score of a model, newest job and newest grade first; of one version of its jobs, if given."""
    if version is None:
        return await _scores(store, "j.model = ?", (model,))
    return await _scores(store, "j.model = ? AND j.version = ?", (model, version))


async def _scores(store: Store, condition: str, values: tuple[Any, ...]) -> list[Row]:
    return await store.all(
        f"SELECT {COLUMNS} FROM score s JOIN job j ON j.id = s.job WHERE {condition} "
        "ORDER BY j.id DESC, s.finished DESC",
        values,
    )


async def scored_models(store: Store) -> list[str]:
    """Names of the models that have a score."""
    rows = await store.all("SELECT DISTINCT j.model FROM score s JOIN job j ON j.id = s.job ORDER BY j.model")
    return [row["model"] for row in rows]


async def first_scores(store: Store) -> dict[str, int]:
    """Every model that has a score, and the number of the first job that gave it one."""
    rows = await store.all(
        "SELECT j.model, MIN(j.id) AS first FROM job j WHERE EXISTS (SELECT 1 FROM score s WHERE s.job = j.id) "
        "GROUP BY j.model"
    )
    return {row["model"]: row["first"] for row in rows}


async def last_run(store: Store, job: JobRow) -> JobRow | None:
    """The newest other job with a score on the same rows in the same kind: of the same model, else of another."""
    row = await store.one(
        "SELECT j.* FROM job j WHERE j.benchmark = ? AND j.kind = ? AND j.rows_sha256 = ? AND j.id <> ? AND EXISTS "
        "(SELECT 1 FROM score s WHERE s.job = j.id AND s.grade_key = j.grade_key) "
        "ORDER BY CASE WHEN j.model = ? THEN 0 ELSE 1 END, j.id DESC LIMIT 1",
        (job.benchmark, job.kind, job.rows_sha256, job.id, job.model),
    )
    return JobRow.of(row) if row else None


async def verdicts(store: Store, job: int, grade_key: str) -> list[Row]:
    """Graded samples in order of row and repeat."""
    return await store.all(
        "SELECT number, row, repeat, grade.* FROM sample JOIN grade ON sample = number AND grade_key = ? "
        "WHERE job = ? ORDER BY row, repeat",
        (grade_key, job),
    )
