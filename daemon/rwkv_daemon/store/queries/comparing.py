"""Queries of comparisons: scores with their jobs, and graded samples with the expected answers."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rwkv_daemon.rules.work_keys import GIVEN
from rwkv_daemon.store.interface import Store, StoreRow
from rwkv_daemon.store.typed_rows import JobRow

AT_ONCE: Final = 500
"""Jobs that are looked up with one query."""

COLUMNS = "j.id, j.benchmark, j.kind, j.version, s.grade_key, s.view"


async def scores_of_job(store: Store, job: int) -> list[StoreRow]:
    """Return every score of a job (one per grade key), newest first."""
    return await _scores(store, "j.id = ?", (job,))


async def scores_of_jobs(store: Store, jobs: Sequence[int], benchmarks: Sequence[str] = ()) -> list[StoreRow]:
    """Return every score of many jobs, newest job and newest grade first; only of these benchmarks, if there are
    some."""
    found: list[StoreRow] = []
    of_them = f" AND j.benchmark IN ({places(benchmarks)})" if benchmarks else ""
    for first in range(0, len(jobs), AT_ONCE):
        some = jobs[first : first + AT_ONCE]
        found += await _scores(store, f"j.id IN ({places(some)}){of_them}", (*some, *benchmarks))
    return found


async def scores_of_model(store: Store, model: str, version: int | None = None) -> list[StoreRow]:
    """Return every score of a model, newest job and newest grade first; of one version of its jobs, if given."""
    if version is None:
        return await _scores(store, "j.model = ?", (model,))
    return await _scores(store, "j.model = ? AND j.version = ?", (model, version))


async def scores_of_weights(store: Store, weights: Sequence[str], besides: str) -> list[StoreRow]:
    """Return every score of weights with these sha256 under other names than `besides`, newest job first."""
    if not weights:
        return []
    return await _scores(store, f"j.weights_sha256 IN ({places(weights)}) AND j.model <> ?", (*weights, besides))


def places(values: Sequence[Any]) -> str:
    """Return an SQL placeholder for each value: `?, ?, ?`."""
    return ", ".join("?" * len(values))


def called(model: str, weights: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Return the condition, with its values, that a job `j` is of a model by name, or of one of these weights."""
    same = f" OR j.weights_sha256 IN ({places(weights)})" if weights else ""
    return f"(j.model = ?{same})", (model, *weights)


async def known_models(store: Store, name: str) -> list[str]:
    """Return just this name, if a job is of a model with that name; otherwise the name of every job's model."""
    if await store.one("SELECT 1 AS known FROM job WHERE model = ? LIMIT 1", (name,)):
        return [name]
    return [row["model"] for row in await store.all("SELECT DISTINCT model FROM job WHERE state <> 'deleted'")]


class ScoredWork(NamedTuple):
    """A job that has a score: its number, and what it measured."""

    job: int
    model: str
    benchmark: str
    kind: str
    weights_sha256: str


async def scored_work(store: Store, models: Sequence[str], weights: Sequence[str]) -> list[ScoredWork]:
    """Return everything that has a score under one of these names, or of one of these weights."""
    columns = "j.id, j.model, j.benchmark, j.kind, j.weights_sha256"
    rows = await store.all(
        f"SELECT DISTINCT {columns} FROM job j JOIN score s ON s.job = j.id WHERE j.model IN ({places(models)}) "
        f"UNION SELECT DISTINCT {columns} FROM job j JOIN score s ON s.job = j.id "
        f"WHERE j.weights_sha256 IN ({places(weights)})",
        (*models, *weights),
    )
    return [ScoredWork(*(row[place] for place in range(5))) for row in rows]


async def names_of_same_work(store: Store) -> list[StoreRow]:
    """Return (model, weights_sha256) of jobs that use another job's score."""
    return await store.all("SELECT DISTINCT model, weights_sha256 FROM job WHERE state = 'done' AND reason = 'done'")


async def same_work_of(store: Store, session: str) -> list[JobRow]:
    """Return the jobs of a session that use another job's score."""
    sql = "SELECT * FROM job WHERE session = ? AND state = 'done' AND reason = 'done' ORDER BY id"
    return list(map(JobRow.of, await store.all(sql, (session,))))


async def _scores(store: Store, condition: str, values: tuple[Any, ...]) -> list[StoreRow]:
    return await store.all(
        f"SELECT {COLUMNS} FROM score s JOIN job j ON j.id = s.job WHERE {condition} "
        "ORDER BY j.id DESC, s.finished DESC",
        values,
    )


async def scored_models(store: Store) -> list[str]:
    """Return the names of the models that have a score; a rewriting has none that measures."""
    rows = await store.all(
        "SELECT DISTINCT j.model FROM score s JOIN job j ON j.id = s.job WHERE source_job IS NULL ORDER BY j.model"
    )
    return [row["model"] for row in rows]


class FirstScore(NamedTuple):
    """The first job that gave a model a score. `given`: all of its scores came without samples, so it is no checkpoint
    that was measured here."""

    job: int
    given: bool


async def first_scores(store: Store) -> dict[str, FirstScore]:
    """Return every model that has a score, with the first job that gave it one; no rewriting does."""
    rows = await store.all(
        "SELECT j.model, MIN(j.id) AS first, "
        f"MIN(CASE WHEN j.grader_version = '{GIVEN}' THEN 1 ELSE 0 END) AS given "
        "FROM job j WHERE EXISTS (SELECT 1 FROM score s WHERE s.job = j.id) "
        "AND source_job IS NULL GROUP BY j.model"
    )
    return {row["model"]: FirstScore(row["first"], bool(row["given"])) for row in rows}


async def last_runs(store: Store, job: JobRow, baseline: str, most: int) -> list[JobRow]:
    """Return the newest other jobs with a score on the same set in the same kind: those of the baseline first (empty:
    none), then those of the same model. A rewriting is none of them."""
    rows = await store.all(
        "SELECT j.* FROM job j WHERE j.benchmark = ? AND j.kind = ? AND j.rows_sha256 = ? AND j.id <> ? AND "
        "source_job IS NULL AND EXISTS (SELECT 1 FROM score s WHERE s.job = j.id AND s.grade_key = j.grade_key) "
        "ORDER BY CASE WHEN j.model = ? THEN 0 WHEN j.model = ? THEN 1 ELSE 2 END, j.id DESC LIMIT ?",
        (job.benchmark, job.kind, job.rows_sha256, job.id, baseline, job.model, most),
    )
    return [JobRow.of(row) for row in rows]


class GradedRun(NamedTuple):
    """The graded samples of a job under one grade key."""

    job: int
    grade_key: str


class Stop(NamedTuple):
    """How many samples there are up to a row."""

    row: int
    samples: int


async def last_of(store: Store, job: int) -> int | None:
    """Return the last row of a job; None if it has no samples."""
    row = await store.one("SELECT row FROM sample WHERE job = ? ORDER BY row DESC LIMIT 1", (job,))
    return row["row"] if row else None


async def rows_of(store: Store, job: int, after: int, size: int) -> Stop:
    """Return the row of the last of the next `size` samples after a row, and how many they are."""
    row = await store.one(
        "SELECT COUNT(*) AS n, MAX(row) AS last FROM "
        "(SELECT row FROM sample WHERE job = ? AND row > ? ORDER BY row LIMIT ?) AS page",
        (job, after, size),
    )
    return Stop(row["last"], row["n"]) if row and row["n"] else Stop(after, 0)


async def verdicts(store: Store, run: GradedRun, after: int, upto: int) -> list[StoreRow]:
    """Return graded samples after one row up to another, in order of row and repeat."""
    return await store.all(
        "SELECT number, row, repeat, value, extracted, reason, expected, parts FROM sample "
        "JOIN grade ON sample = number AND grade_key = ? WHERE job = ? AND row > ? AND row <= ? ORDER BY row, repeat",
        (run.grade_key, run.job, after, upto),
    )


_ONE: Final = "FROM sample JOIN grade ON sample = number AND grade_key = ? WHERE job = ? AND row > ? AND row <= ?"
_BOTH: Final = (
    "FROM sample s JOIN grade x ON x.sample = s.number AND x.grade_key = ? "
    "LEFT JOIN sample t ON t.job = ? AND t.row = s.row AND t.repeat = s.repeat "
    "LEFT JOIN grade y ON y.sample = t.number AND y.grade_key = ? WHERE s.job = ? AND s.row > ? AND s.row <= ?"
)


async def verdict_counts(store: Store, a: GradedRun, b: GradedRun, after: int, upto: int) -> StoreRow:
    """Count the verdicts of two runs with one sample per row, after one row up to another: how many samples `a` and `b`
    have, how many `both`, how many of these have a verdict in both (`whole`), and which of them are right."""
    cases = {"right": (1, 1), "only_a": (1, 0), "only_b": (0, 1), "neither": (0, 0)}
    sums = "".join(
        f", COALESCE(SUM(CASE WHEN x.value = {ours} AND y.value = {theirs} THEN 1 ELSE 0 END), 0) AS {name}"
        for name, (ours, theirs) in cases.items()
    )
    row = await store.one(
        f"SELECT COUNT(*) AS a, COUNT(y.sample) AS both, COUNT(x.value + y.value) AS whole{sums}, "
        f"(SELECT COUNT(*) {_ONE}) AS b {_BOTH}",
        (*b[::-1], after, upto, a.grade_key, *b, a.job, after, upto),
    )
    assert row is not None
    return row


async def parted(store: Store, a: GradedRun, b: GradedRun, after: int, upto: int, most: int) -> list[StoreRow]:
    """Return (row, a, b) of the first samples whose values differ."""
    return await store.all(
        f"SELECT s.row, x.value AS a, y.value AS b {_BOTH} AND x.value <> y.value ORDER BY s.row LIMIT ?",
        (a.grade_key, *b, a.job, after, upto, most),
    )


async def verdict_values(store: Store, run: GradedRun, after: int, upto: int) -> list[StoreRow]:
    """Return (row, value) of graded samples after one row up to another, in order of row and repeat."""
    return await store.all(f"SELECT row, value {_ONE} ORDER BY row, repeat", (run.grade_key, run.job, after, upto))
