"""Queries that a comparison needs: scores with their jobs, and graded samples with what was expected."""

from typing import Any

from rwkv_daemon.store.interface import Row, Store

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


async def verdicts(store: Store, job: int, grade_key: str) -> list[Row]:
    """Graded samples in order of row and repeat."""
    return await store.all(
        "SELECT number, row, repeat, grade.* FROM sample JOIN grade ON sample = number AND grade_key = ? "
        "WHERE job = ? ORDER BY row, repeat",
        (grade_key, job),
    )
