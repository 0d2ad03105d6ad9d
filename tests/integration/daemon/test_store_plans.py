"""How the databases go about the queries that are asked all day: none of them reads all samples.

What is recorded is what the daemon's own handlers and its ingest ask, so a query that is added there is looked at too.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.changes import event_bus
from rwkv_daemon.node import Node
from rwkv_daemon.store import NewJob, Store, StoreRow, Transaction, dialect
from rwkv_daemon.store.postgres import PostgresStore
from rwkv_daemon.store.queries.jobs import add_attempt, add_jobs, add_session, remember_reply, remembered_reply
from rwkv_daemon.store.queries.samples import count_unjudged, graded, ingest, totals
from rwkv_daemon.store.queries.verdicts import paid_by, spent, spent_on, unjudged
from rwkv_daemon.upkeep.store_maintenance import tidy
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord
from rwkvctl.protocol.recipes import SampleGrade, VerdictsRequest
from rwkvctl.protocol.requests import (
    ExchangeRequest,
    JobRequest,
    JobsRequest,
    ModelsRequest,
    NowRequest,
    OutlineRequest,
    SameRequest,
    SamplesRequest,
    ScoresRequest,
    SoFarRequest,
    StatusRequest,
)
from rwkvctl.settings import config

JOBS, SAMPLES = 40, 30
NEW_JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="b", kind="cot", state="done", reason="",
    detail="", priority=0, generation_key="g", grade_key="h", settings="{}", grader="number", grader_version="1",
    configuration='{"stages": [{"name": "a"}]}', grading="{}", benchmark_version=1, rows_sha256="r", seed=42,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=SAMPLES, run_log_dir="",
)  # fmt: skip
WHOLE = re.compile(r"(?:SCAN(?! \d+ CONSTANT ROW)|Seq Scan on) (\w+)")
SMALL = {"asked", "job", "j", "n", "page", "engine", "lease", "pause", "gpu", "gpu_contention", "notified", "pin",
         "recipe", "verdict", "wanted", "weights"}  # fmt: skip
"""What may be read from end to end: tables of thousands of rows at most, an index of sums, what a LIMIT has cut."""


@dataclass
class Recorder:
    """A store that remembers what it was asked."""

    store: Store
    asked: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        self.asked[sql] = tuple(parameters)
        return await self.store.all(sql, parameters)

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator["RecordingTransaction"]:
        async with self.store.write() as db:
            yield RecordingTransaction(db, self.asked)


@dataclass
class RecordingTransaction:
    """The same of a transaction."""

    db: Transaction
    asked: dict[str, tuple[Any, ...]]

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        self.asked[sql] = tuple(parameters)
        return await self.db.execute(sql, parameters)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        self.asked[sql] = tuple(parameters)
        return await self.db.all(sql, parameters)

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        taken = [tuple(row) for row in rows]
        if taken:
            self.asked[sql] = taken[0]
        await self.db.many(sql, taken)


def records() -> list[Record]:
    found: list[Record] = []
    for row in range(SAMPLES):
        found.append(StageRecord(row=row, repeat=0, stage=0, text="t", prompt="p", stop="eos"))
        found.append(SampleRecord(row=row, repeat=0, value=float(row % 2), reason="right" if row % 2 else "wrong"))
    return found


@pytest.fixture
async def asked(store: Store, tmp_path: Path) -> dict[str, tuple[Any, ...]]:
    """Every query of a working day, with the values it was asked with."""
    recorder = Recorder(store)
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    node = Node.of(settings, recorder, NodeBenchmarks(settings.data_dir))  # type: ignore[arg-type]  # all that is used of one
    async with recorder.write() as db:
        await add_session(db, "s", "{}", "host", ("0", "c"))
        numbers = await add_jobs(db, "s", [replace(NEW_JOB, benchmark=f"b{n}") for n in range(JOBS)])
        for number in numbers:
            await add_attempt(db, number, 1, f"uuid-{number}")
            await ingest(db, number, 1, "h", records(), 1)
        await remember_reply(db, "r", b"{}")
        await event_bus.record(db, "daemon", job="j1", text="x")
    for request in (
        StatusRequest(), StatusRequest(session="s"), JobsRequest(), JobsRequest(state="done", before=9),
        JobsRequest(state="held,done", words="b1 x"), JobsRequest(words="50%"), SoFarRequest(job="j5"),
        NowRequest(job="j5"), JobRequest(job="j5"), ScoresRequest(), ScoresRequest(model="m"),
        ScoresRequest(before=9, brief=True), ModelsRequest(scored=True), SamplesRequest(job="j5"),
        SamplesRequest(job="j5", wrong=True), SamplesRequest(job="j5", latest=True),
        SamplesRequest(job="j5", after=5 * 2**20), SamplesRequest(job="j5", cut=True, reason="wrong", text="x"),
        SamplesRequest(job="j5", numbers=(121, 122)), OutlineRequest(job="j5", subjects=True),
        OutlineRequest(job="j5", text="x"), SameRequest(job="j5", row=3), ExchangeRequest(job="j5", number=121),
        VerdictsRequest(samples=tuple(SampleGrade(job=5, row=row, repeat=0, grade_key="h") for row in range(3))),
    ):  # fmt: skip
        await router.answer(node, request)
    for question in (graded, count_unjudged, unjudged, spent_on):
        await question(recorder, 5, "h")  # type: ignore[arg-type]
    await paid_by(recorder, ["j5", "j6"])  # type: ignore[arg-type]
    await totals(recorder, 5)  # type: ignore[arg-type]
    await spent(recorder, "judge", "daily")  # type: ignore[arg-type]
    await remembered_reply(recorder, "r")  # type: ignore[arg-type]
    await event_bus.stored(recorder, 0, "s")  # type: ignore[arg-type]
    await tidy(node.records)
    assert len(recorder.asked) > 30
    return recorder.asked


async def test_no_query_reads_all_samples(store: Store, asked: dict[str, tuple[Any, ...]]) -> None:
    scans = {}
    async for sql, plan in plans(store, asked):
        if read_whole := {found[1] for line in plan if (found := WHOLE.search(line))} - SMALL:
            scans[sql] = read_whole
    assert not scans


async def test_samples_of_a_job_are_found_without_reading_the_others(
    store: Store, asked: dict[str, tuple[Any, ...]]
) -> None:
    if isinstance(store, PostgresStore):
        pytest.skip("PostgreSQL decides by its statistics: of so few rows it may read all")
    found = {sql: " | ".join(plan) async for sql, plan in plans(store, asked)}
    stages = [plan for sql, plan in found.items() if sql.startswith("WITH wanted")]
    assert stages
    assert all("SEARCH c USING PRIMARY KEY (job=? AND row=? AND repeat=?)" in plan for plan in stages)
    cut = [plan for sql, plan in found.items() if "WHERE stop = 'length'" in sql or "WHERE c.stop = 'length'" in sql]
    assert len(cut) >= 2
    assert all("completion_cut" in plan for plan in cut)


async def plans(store: Store, asked: dict[str, tuple[Any, ...]]) -> AsyncIterator[tuple[str, list[str]]]:
    """How each query is gone about."""
    if not isinstance(store, PostgresStore):
        for sql, values in asked.items():
            yield sql, [row["detail"] for row in await store.all(f"EXPLAIN QUERY PLAN {sql}", values)]
        return
    connection = await store.server.connect()
    await connection.execute("ANALYZE")
    await connection.execute("SET enable_seqscan = off")  # with so few rows it would always be cheaper
    for sql, values in asked.items():
        rows = await connection.fetch(f"EXPLAIN {dialect.query(sql)}", *values)
        yield sql, [row[0] for row in rows]
    await connection.close()
