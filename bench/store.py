"""The store against its bars: 10,000 jobs and 10 million samples; reading, ingesting, and both at once.

    python bench/store.py [--samples N] [--keep FOLDER]

The samples are made by SQLite itself, in the tables as the daemon fills them; then the daemon's own handlers answer
`status`, `scores` and `samples`, and its own ingest stores what a runner wrote. Times are those of the server, without
the socket.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from figures import header, line

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.jobs.runner_processes import ingest_slice
from rwkv_daemon.node import Node
from rwkv_daemon.scheduling.running_jobs import RunnerHandle
from rwkv_daemon.store import NewJob, open_store
from rwkv_daemon.store.queries.jobs import add_attempt, add_job, add_session
from rwkv_daemon.workers.run_directory import SampleRecord, StageRecord
from rwkvctl.protocol.requests import JobsRequest, SamplesRequest, ScoresRequest, StatusRequest
from rwkvctl.protocol.routes import AnyRequest
from rwkvctl.protocol.views import MetricView, ScoreView
from rwkvctl.settings import config

JOBS, MODELS, KINDS = 10_000, 200, 50
BYTES_PER_SAMPLE = 700
INGESTED = 50_000
NEW_JOB = NewJob(
    model="", weights_path="/w/m.pth", weights_sha256="0" * 64, benchmark="", kind="free_response", state="done",
    reason="", detail="", priority=0, generation_key="", grade_key="", settings="{}", grading="{}",
    configuration='{"stages": [{"name": "cot"}]}', grader="g", grader_version="1", benchmark_version=1,
    rows_sha256="0" * 64, seed=0, row_limit=None, numerics="fp32", repeats=1, stages=1, total=1000, run_log_dir="",
)  # fmt: skip
COMPLETION = "We have 17 apples and give away 5, so 17 - 5 = 12 are left. " * 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path, default=None, help="a home that is made once and used again")
    given = parser.parse_args()
    header()
    with contextlib.ExitStack() as stack:
        home = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rwkv-bench-")))
        samples = min(given.samples, shutil.disk_usage(home.parent).free // 2 // BYTES_PER_SAMPLE)
        if samples < given.samples:
            print(f"room for {samples:,} samples only")
        begun = time.perf_counter()
        if not (home / "store.sqlite").exists():
            asyncio.run(fill(home, JOBS, samples // JOBS))
        size = (home / "store.sqlite").stat().st_size
        print(
            f"{JOBS:,} jobs, {samples:,} samples, {size / 2**30:.1f} GiB, made in {time.perf_counter() - begun:.0f} s"
        )
        asyncio.run(measure(home))


async def fill(home: Path, jobs: int, each: int) -> None:
    """A store as it is after years of work: so many jobs, with so many samples each."""
    home.mkdir(parents=True, exist_ok=True)
    store = await open_store(home / "store.sqlite")
    async with store.write() as db:
        await add_session(db, "bench", "{}", "bench", ("0", ""))
        for number in range(jobs):
            await add_job(db, "bench", a_job(number))
    await store.close()
    with contextlib.closing(sqlite3.connect(home / "store.sqlite", isolation_level=None)) as db:
        for sql in bulk(each):
            db.execute(sql)


def a_job(number: int) -> NewJob:
    key = f"{number:032x}"
    names = {"model": f"rwkv7-g1a-{number % MODELS}", "benchmark": f"b{number % KINDS}"}
    return replace(NEW_JOB, generation_key=key, grade_key=key, **names)


def bulk(each: int) -> list[str]:
    """Return the statements that insert `each` samples for every job, one statement for each table, so that the time
    measured is that of SQLite and not of Python."""
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {each - 1})"
    cross = "FROM job CROSS JOIN seq ORDER BY job.id, seq.i"
    return [
        "PRAGMA synchronous = OFF", "PRAGMA cache_size = -200000",
        f"CREATE TEMP TABLE seq AS {numbers} SELECT i FROM n",
        "BEGIN",
        f"INSERT INTO prompt SELECT job.id, i, 0, 'Question ' || i || ': {COMPLETION}' {cross}",
        ("INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
        "cached_tokens, generated_tokens, engine, seconds) SELECT job.id, i, 0, 0, 1, '[12,345,6789,12,345,6789]', "
        f"'{COMPLETION}', 'eos', '[]', 60, 30, 40, 'e1', 0.5 {cross}"),
        f"INSERT INTO sample (job, row, repeat, attempt) SELECT job.id, i, 0, 1 {cross}",
        ("INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail) SELECT number, "
        "(SELECT grade_key FROM job WHERE id = sample.job), number % 4 <> 0, CASE WHEN number % 4 <> 0 THEN 'right' "
        "ELSE 'wrong' END, '12', '12', '' FROM sample"),
        (f"UPDATE job SET done = {each}, stages_done = {each}, right_sum = {each} * 0.75, total = {each}, "
        "started = '2026-01-01T00:00:00Z', finished = '2026-01-01T01:00:00Z'"),
        "INSERT INTO score SELECT id, grade_key, finished, replace(replace('" + score() + "', '@job', 'j' || id), "
        "'@model', model) FROM job",
        "COMMIT", "DROP TABLE seq", "PRAGMA wal_checkpoint(TRUNCATE)",
    ]  # fmt: skip


def score() -> str:
    metric = MetricView(value=0.75, ci_low=0.7, ci_high=0.8, unit="share")
    view = ScoreView(
        job="@job", model="@model", benchmark="b", kind="free_response", version=1, primary="accuracy",
        metrics={"accuracy": metric}, n=1000, rows=1000, repeats=1, scored=1000, truncated=0, no_answer=0, timeouts=0,
        unjudged=0, errors=0, completion_tokens=40.0, chance=None, partial=False, why_null="", warnings=(),
        session="bench", provenance={},
    )  # fmt: skip
    return msgspec.json.encode(view).decode().replace("'", "''")


async def measure(home: Path) -> None:
    """Ask, ingest, and do both at once."""
    os.environ["RWKVCTL_HOME"] = str(home)
    settings = config.load({"home": str(home)})
    settings.runs_dir.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    store = await open_store(settings.store)
    line("open the store", (time.perf_counter() - begun) * 1000, "ms", None)
    node = Node.of(settings, store, NodeBenchmarks(settings.data_dir))
    answers: dict[str, AnyRequest] = {
        "status": StatusRequest(),
        "scores": ScoresRequest(),
        "scores of one model": ScoresRequest(model="rwkv7-g1a-7"),
        "jobs, a page of 100": JobsRequest(limit=100),
        "samples, first page": SamplesRequest(job="j5000"),
        "samples, last page": SamplesRequest(job="j5000", after=900 * 2**20),
        "samples, wrong ones": SamplesRequest(job="j5000", wrong=True),
        "samples, newest": SamplesRequest(job="j5000", latest=True),
    }
    for what, request in answers.items():
        times = await timed(lambda request=request: router.answer(node, request), 20)  # type: ignore[misc]
        line(what, statistics.median(times) * 1000, "ms", 50)
    handle = await a_running_job(node)
    begun = time.perf_counter()
    disturbed: list[float] = []
    async with asyncio.TaskGroup() as tasks:
        ingesting = tasks.create_task(ingest_all(node, handle))
        while not ingesting.done():
            disturbed += await timed(lambda: router.answer(node, StatusRequest()), 1)
            await asyncio.sleep(0.02)
    line("ingest", INGESTED / (time.perf_counter() - begun), "/s", 5000, at_least=True)
    line("status while it ingests, p50", statistics.median(disturbed) * 1000, "ms", 50)
    line("status while it ingests, p99", sorted(disturbed)[int(len(disturbed) * 0.99)] * 1000, "ms", None)
    await store.close()


async def a_running_job(node: Node) -> RunnerHandle:
    """A job whose runner has just written all of its samples."""
    async with node.records.store.write() as db:
        number = await add_job(db, "bench", a_job(time.time_ns()))
        await db.execute("UPDATE job SET state = 'generating', total = ? WHERE id = ?", (INGESTED, number))
        await add_attempt(db, number, 1, f"bench-{number}")
    folder = node.records.folder(number)
    folder.path.mkdir(parents=True, exist_ok=True)
    with folder.samples(1).open("wb") as file:
        for row in range(INGESTED):
            stage = StageRecord(row=row, repeat=0, stage=0, ids=tuple(range(1000, 1040)), text=COMPLETION, stop="eos",
                                prompt=f"Question {row}: {COMPLETION}", prompt_tokens=60, generated=40, engine="e1",
                                seconds=0.5)  # fmt: skip
            sample = SampleRecord(row=row, repeat=0, value=float(row % 2), reason="right" if row % 2 else "wrong")
            file.write(msgspec.json.encode(stage) + b"\n" + msgspec.json.encode(sample) + b"\n")
    return RunnerHandle(number, 1, worker=None)  # type: ignore[arg-type]


async def ingest_all(node: Node, handle: RunnerHandle) -> None:
    while await ingest_slice(node.records, handle):
        await asyncio.sleep(0)


async def timed(action: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    """Return the seconds that each of `times` successive calls took."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await action()
        taken.append(time.perf_counter() - begun)
    return taken


if __name__ == "__main__":
    main()
