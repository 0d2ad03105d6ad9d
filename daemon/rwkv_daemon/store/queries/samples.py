"""Queries about completions, samples, grades and scores."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from rwkv_daemon.store.interface import Store, StoreError, StoreRow, Transaction
from rwkv_daemon.store.queries.comparing import called, rows_of
from rwkv_daemon.store.queries.jobs import as_json
from rwkv_daemon.store.typed_rows import SampleCounts
from rwkv_daemon.workers.run_directory import FINAL, Record, SampleRecord, StageRecord


async def ingest(
    db: Transaction, job: int, attempt: int, grade_key: str, records: Sequence[Record], offset: int
) -> SampleCounts:
    """Store records and advance the attempt's offset, in the caller's transaction. What is there already stays, so a
    slice may be ingested twice. The job's counts are increased by what is new: counting everything for each slice would
    make a long job ever slower."""
    stages = [record for record in records if isinstance(record, StageRecord)]
    samples = [record for record in records if isinstance(record, SampleRecord)]
    there = await StoredRows.near(db, job, grade_key, records)
    prompts = [(job, s.row, s.stage, s.prompt) for s in stages if s.prompt is not None]
    stages = [s for s in stages if there.stages.add_new((s.row, s.repeat, s.stage))]
    graded = [s for s in samples if there.graded.add_new((s.row, s.repeat))]
    new = [s for s in graded if there.samples.add_new((s.row, s.repeat))]
    await db.many(f"{PROMPT} ON CONFLICT DO NOTHING", prompts)
    await db.many(COMPLETION, (completion_row(job, attempt, s) for s in stages))
    await db.many(SAMPLE, ((job, s.row, s.repeat, attempt) for s in new))
    await db.many(GRADE, (grade_row(job, grade_key, s) for s in graded))
    await db.execute("UPDATE attempt SET ingested = ? WHERE job = ? AND number = ?", (offset, job, attempt))
    values = [s.value for s in graded if s.value is not None]
    return await _grown(db, job, len(graded), len(stages), sum(values), len(values))


PROMPT: Final = "INSERT INTO prompt (job, row, stage, text) VALUES (?, ?, ?, ?)"
COMPLETION: Final = (
    "INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
    f"cached_tokens, generated_tokens, engine, seconds, greedy) VALUES ({', '.join('?' * 15)})"
)
SAMPLE: Final = "INSERT INTO sample (job, row, repeat, attempt) VALUES (?, ?, ?, ?)"
GRADE: Final = (
    "INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail, route, parts) "
    "SELECT number, ?, ?, ?, ?, ?, ?, ?, ? FROM sample WHERE job = ? AND row = ? AND repeat = ?"
)


class StoredPlaces(set[tuple[int, ...]]):
    """A set of (row, repeat) of samples, or of (row, repeat, stage) of stages."""

    def add_new(self, place: tuple[int, ...]) -> bool:
        """Add a place; return whether it was new."""
        before = len(self)
        self.add(place)
        return len(self) > before


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What is stored of the rows that some records are about."""

    stages: StoredPlaces
    samples: StoredPlaces
    graded: StoredPlaces

    @classmethod
    async def near(cls, db: Transaction, job: int, grade_key: str, records: Sequence[Record]) -> "StoredRows":
        """Read what is stored between the first and the last row of the records. Runners go through the rows in order,
        so these are few."""
        rows = [record.row for record in records]
        span = (job, min(rows, default=0), max(rows, default=0))
        where = "WHERE job = ? AND row BETWEEN ? AND ?"
        graded = "JOIN grade ON sample = number AND grade_key = ?"
        return cls(
            stages=places(await db.all(f"SELECT row, repeat, stage FROM completion {where}", span)),
            samples=places(await db.all(f"SELECT row, repeat FROM sample {where}", span)),
            graded=places(await db.all(f"SELECT row, repeat FROM sample {graded} {where}", (grade_key, *span))),
        )


def places(rows: Iterable[StoreRow]) -> StoredPlaces:
    return StoredPlaces(tuple(row) for row in rows)


def completion_row(job: int, attempt: int, s: StageRecord) -> tuple[Any, ...]:
    return (
        job, s.row, s.repeat, s.stage, attempt, numbers(s.ids), s.text, s.stop, listed(s.logprobs),
        s.prompt_tokens, s.cached, s.generated, s.engine, s.seconds, listed(s.greedy),
    )  # fmt: skip


def listed(values: Sequence[float]) -> str:
    """Encode values as JSON; mostly there are none."""
    return as_json(values) if values else "[]"


def numbers(ids: Sequence[int]) -> str:
    """Encode token ids as JSON; there are many, so it must be fast."""
    return msgspec.json.encode(ids).decode()


def grade_row(job: int, grade_key: str, s: SampleRecord) -> tuple[Any, ...]:
    return (
        grade_key, s.value, s.reason, s.expected, s.extracted, s.detail, s.route, as_json(s.parts) if s.parts else "{}",
        job, s.row, s.repeat,
    )  # fmt: skip


async def _grown(db: Transaction, job: int, done: int, stages: int, right: float, judged: int) -> SampleCounts:
    row = await db.one(
        "UPDATE job SET done = done + ?, stages_done = stages_done + ?, right_sum = right_sum + ?, judged = judged + ? "
        "WHERE id = ? RETURNING done, stages_done, right_sum, judged",
        (done, stages, right, judged, job),
    )
    if row is None:
        raise StoreError(f"there is no job {job}")
    return SampleCounts(row["done"], row["stages_done"], row["right_sum"], row["judged"])


async def forget_errors(db: Transaction, job: int, grade_key: str) -> int:
    """Delete the grades under this key that are errors, so that they are made again; returns how many. Samples that
    wait for a judge stay: the judge is asked again."""
    final = sorted(FINAL)
    return await db.execute(
        f"DELETE FROM grade WHERE grade_key = ? AND value IS NULL AND reason NOT IN ({', '.join('?' * len(final))}) "
        "AND sample IN (SELECT number FROM sample WHERE job = ?)",
        (grade_key, *final, job),
    )


async def count_unjudged(store: Store, job: int, grade_key: str) -> int:
    """Return how many samples of a job wait for the judge's verdict under this grade key."""
    row = await store.one(
        "SELECT COUNT(*) AS n FROM sample JOIN grade ON sample = number AND grade_key = ? AND reason = 'unjudged' "
        "WHERE job = ?",
        (grade_key, job),
    )
    return int(row["n"]) if row else 0


async def refresh_counts(db: Transaction, job: int, grade_key: str) -> SampleCounts:
    """Count what is stored, and store the counts with the job."""
    row = await db.one(
        "SELECT COUNT(*) AS done, COALESCE(SUM(value), 0) AS right_sum, COUNT(value) AS judged, "
        "(SELECT COUNT(*) FROM completion WHERE job = ?) AS stages_done "
        "FROM sample JOIN grade ON sample = number AND grade_key = ? WHERE job = ?",
        (job, grade_key, job),
    )
    assert row is not None
    counts = SampleCounts(row["done"], row["stages_done"], row["right_sum"], row["judged"])
    await db.execute(
        "UPDATE job SET done = ?, stages_done = ?, right_sum = ?, judged = ? WHERE id = ?",
        (counts.done, counts.stages_done, counts.right_sum, counts.judged, job),
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


GRADED_AT_ONCE: Final = 5_000
"""Samples that one query reads for a score; other tasks run between two queries."""


async def graded(store: Store, job: int, grade_key: str) -> list[GradedSample]:
    """Return every sample of a job that has a grade under this key, in order of row and repeat."""
    samples: list[GradedSample] = []
    stop = await rows_of(store, job, -1, GRADED_AT_ONCE)
    after = -1
    while stop.samples:
        samples += await _graded_between(store, (job, after, stop.row), grade_key)
        after = stop.row
        stop = await rows_of(store, job, after, GRADED_AT_ONCE)
    return samples


async def _graded_between(store: Store, place: tuple[int, int, int], grade_key: str) -> list[GradedSample]:
    """Return those of a job after one row up to another."""
    within = "WHERE job = ? AND row > ? AND row <= ? ORDER BY row, repeat"
    ends: dict[tuple[int, int], list[StoreRow]] = {}
    # Only a truncated text may turn out to be complete after all; other texts need not be read.
    stages = (
        "SELECT row, repeat, stop, CASE WHEN stop = 'length' THEN text ELSE '' END AS text FROM completion "
        f"{within}, stage"
    )
    for end in await store.all(stages, place):
        ends.setdefault((end["row"], end["repeat"]), []).append(end)
    rows = await store.all(
        "SELECT row, repeat, value, extracted, reason, route, parts FROM sample "
        f"JOIN grade ON sample = number AND grade_key = ? {within}",
        (grade_key, *place),
    )
    samples = []
    for r in rows:
        own = ends.get((r["row"], r["repeat"]), [])
        stops, text = tuple(end["stop"] for end in own), own[-1]["text"] if own else ""
        parts = json.loads(r["parts"]) if r["parts"] != "{}" else {}
        verdict = (r["value"], r["extracted"], r["reason"], r["route"], parts)
        samples.append(GradedSample(r["row"], r["repeat"], *verdict, stops, text))
    return samples


@dataclass(frozen=True, slots=True)
class JobTotals:
    """The tokens of a job, and the engines that generated them (`e3`)."""

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    engines: tuple[str, ...]


async def totals(store: Store, job: int) -> JobTotals:
    """Return the tokens of all completions of a job, and the engines that generated them."""
    rows = await store.all(
        "SELECT engine, SUM(prompt_tokens) AS prompt, SUM(cached_tokens) AS cached, SUM(generated_tokens) AS generated "
        "FROM completion WHERE job = ? GROUP BY engine ORDER BY engine",
        (job,),
    )
    prompt, cached, generated = (sum(row[name] for row in rows) for name in ("prompt", "cached", "generated"))
    return JobTotals(prompt, cached, generated, tuple(row["engine"] for row in rows if row["engine"]))


async def asked_tokens(store: Store, job: int) -> tuple[int, int]:
    """Return the (prompt, generated) tokens of the completions of a job that a model was asked for: a rewriting may
    need none."""
    row = await store.one(
        "SELECT COALESCE(SUM(prompt_tokens), 0) AS prompt, COALESCE(SUM(generated_tokens), 0) AS generated "
        "FROM completion WHERE job = ? AND engine <> ''",
        (job,),
    )
    return (int(row["prompt"]), int(row["generated"])) if row else (0, 0)


CURSOR: Final = 1 << 20
"""A cursor is row * CURSOR + repeat."""


async def stages_of(
    store: Store, job: int, samples: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], list[StoreRow]]:
    """Return the stages of samples, each a (row, repeat), with their prompts."""
    found: dict[tuple[int, int], list[StoreRow]] = {sample: [] for sample in samples}
    if not samples:
        return found
    first = "(CAST(? AS INTEGER), CAST(? AS INTEGER))"  # PostgreSQL takes the types of all from it
    # CROSS JOIN: SQLite would read every completion of the job, and look for each of them among the samples
    rows = await store.all(
        f"WITH wanted (at_row, at_repeat) AS (VALUES {first}{', (?, ?)' * (len(samples) - 1)}) "
        "SELECT c.row, c.repeat, c.stage, COALESCE(p.text, '') AS prompt, c.text, c.stop, c.prompt_tokens, "
        "c.generated_tokens, c.seconds, c.engine, c.logprobs FROM wanted CROSS JOIN completion c "
        "LEFT JOIN prompt p ON p.job = c.job AND p.row = c.row AND p.stage = c.stage "
        "WHERE c.job = ? AND c.row = at_row AND c.repeat = at_repeat ORDER BY c.row, c.repeat, c.stage",
        (*[number for sample in samples for number in sample], job),
    )
    for row in rows:
        found[row["row"], row["repeat"]].append(row)
    return found


async def add_score(db: Transaction, job: int, grade_key: str, finished: str, view: str) -> None:
    """Store the score of a job under one grade key."""
    await db.execute(
        "INSERT INTO score VALUES (?, ?, ?, ?) ON CONFLICT (job, grade_key) DO UPDATE SET "
        "finished = excluded.finished, view = excluded.view",
        (job, grade_key, finished, view),
    )


class StoredScore(NamedTuple):
    """A score view as JSON, and the weights it is of."""

    view: str
    weights_sha256: str


async def scores(
    store: Store, *, model: str, weights: Sequence[str], benchmark: str, session: str, all_versions: bool, before: int,
    limit: int,
) -> list[StoredScore]:  # fmt: skip
    """Return scores, newest job first, of jobs before a number (0: all), of a model by its name or its weights
    (neither: of all); only the newest of each (model, benchmark, kind) unless all versions are asked for."""
    same, of_session = where(benchmark=benchmark), where(session=session)
    if model:
        named, values = called(model, weights)
        same = Condition(f"{same.sql} AND {named}", (*same.values, *values))
    older = before or 2**62
    if all_versions:
        found = f"score s JOIN job j ON j.id = s.job WHERE {same.sql} AND {of_session.sql}"
    else:  # an import never hides a score of our own
        newest = (
            f"SELECT MAX(j.id) AS id FROM job j JOIN score t ON t.job = j.id WHERE {same.sql} "
            "GROUP BY j.model, j.benchmark, j.kind, j.numerics = 'imported'"
        )
        found = (
            f"({newest}) n JOIN score s ON s.job = n.id JOIN job j ON j.id = n.id "
            f"WHERE s.finished = (SELECT MAX(u.finished) FROM score u WHERE u.job = s.job) AND {of_session.sql}"
        )
    rows = await store.all(
        f"SELECT s.view, j.weights_sha256 FROM {found} AND s.job < ? ORDER BY s.job DESC, s.finished DESC LIMIT ?",
        (*same.values, *of_session.values, older, limit),
    )
    return [StoredScore(row["view"], row["weights_sha256"]) for row in rows]


@dataclass(frozen=True, slots=True)
class Condition:
    """Part of a query with its values."""

    sql: str
    values: tuple[str, ...]


def where(**columns: str) -> Condition:
    """Return the condition that columns of job `j` have these values; an empty value does not filter."""
    given = {name: value for name, value in columns.items() if value}
    return Condition(" AND ".join(["1 = 1", *(f"j.{name} = ?" for name in given)]), tuple(given.values()))


async def scores_of(store: Store, jobs: Sequence[int]) -> dict[int, str]:
    """Return the newest score view of each job that has one, as JSON."""
    if not jobs:
        return {}
    rows = await store.all(
        f"SELECT job, view FROM score WHERE job IN ({', '.join('?' * len(jobs))}) ORDER BY job, finished", tuple(jobs)
    )
    return {row["job"]: row["view"] for row in rows}


async def score_of_work(store: Store, generation_key: str, grade_key: str) -> str | None:
    """Return the newest score view, as JSON, of any job that has done this work."""
    row = await store.one(
        "SELECT s.view FROM job j JOIN score s ON s.job = j.id AND s.grade_key = ? WHERE j.generation_key = ? "
        "ORDER BY j.id DESC LIMIT 1",
        (grade_key, generation_key),
    )
    return row["view"] if row else None


async def score_of(store: Store, job: int) -> str | None:
    """Return the newest score view of one job as JSON."""
    row = await store.one("SELECT view FROM score WHERE job = ? ORDER BY finished DESC", (job,))
    return row["view"] if row else None
