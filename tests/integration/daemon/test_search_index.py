"""The index of texts finds the same as reading every sample, on both databases, and never an older state."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import LIMIT_S

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.samples import text_index, window_search
from rwkv_daemon.store import NewJob, Store
from rwkv_daemon.store.queries.deletions import let_go, put_away, remove_rows
from rwkv_daemon.store.queries.jobs import add_attempt, add_jobs, add_session, get_job, update_job
from rwkv_daemon.store.queries.samples import ingest
from rwkv_daemon.store.queries.search_index import is_indexed, next_to_index
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord
from rwkvctl.protocol.requests import OutlineRequest, SamplesRequest
from rwkvctl.settings import config

JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="b", kind="cot", state="done", reason="",
    detail="", priority=0, generation_key="g", grade_key="h", settings="{}", grader="number", grader_version="1",
    configuration='{"stages": [{"name": "a"}]}', grading="{}", benchmark_version=1, rows_sha256="r", seed=42,
    row_limit=None, numerics="fp32", repeats=2, stages=1, total=1, run_log_dir="",
)  # fmt: skip
PIECES = [
    "abc",
    "ABCD",
    "12 17",
    "É",
    "é",
    "ß",
    "漢字仮名",
    "%",
    "_",
    "!",
    "\0",
    "\U0010fffe",
    "'",
    "  ",
    "Kowalski",
    "zzz",
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
SAMPLE = st.tuples(TEXT, TEXT, TEXT, st.none() | TEXT)
"""Prompt, completion, expected, extracted."""


@pytest.fixture
async def node(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr("rwkv_daemon.store.queries.search_index.LEAST_SAMPLES", 1)
    monkeypatch.setattr(text_index, "BLOCK_SAMPLES", 3)
    monkeypatch.setattr(text_index, "BLOCKS_READ", 2)
    monkeypatch.setattr(window_search, "FIRST", 2)
    chosen = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    async with store.write() as db:
        await add_session(db, "s", "{}", "host", ("0", "c"))
    return Node.of(chosen, store, NodeBenchmarks(chosen.data_dir))


async def add_job(node: Node, samples: list[tuple[str, str, str, str | None]]) -> int:
    """A finished job with these samples, two a row; each second row is left out."""
    records: list[Record] = []
    for number, (prompt, completion, expected, extracted) in enumerate(samples):
        row, repeat = 2 * (number // 2), number % 2
        records.append(StageRecord(row=row, repeat=repeat, stage=0, text=completion, prompt=prompt, stop="eos"))
        records.append(
            SampleRecord(row=row, repeat=repeat, value=1.0, reason="right", expected=expected, extracted=extracted)
        )
    async with node.records.store.write() as db:
        [job] = await add_jobs(db, "s", [JOB])
        await add_attempt(db, job, 1, f"uuid-{job}")
        await ingest(db, job, 1, "h", records, 1)
        await update_job(db, job, finished="2026-01-01T00:00:00.000Z")
    return job


async def found(node: Node, job: int, text: str, kind: type[Any] = OutlineRequest) -> list[int]:
    """The numbers of all samples with a text."""
    numbers: list[int] = []
    after = -1
    async with asyncio.timeout(LIMIT_S):
        while True:
            reply: Any = await router.answer(node, kind(job=f"j{job}", text=text, after=after, limit=3))
            numbers += reply.numbers if kind is OutlineRequest else [item.number for item in reply.items]
            after = reply.next
            if after < 0 and not reply.looking:
                return numbers


async def index_all(node: Node) -> None:
    while (job := await next_to_index(node.records.store)) is not None:
        await text_index.index(node.records, job)


async def test_the_same_is_found_as_without_it(node: Node) -> None:
    drawn: list[tuple[Any, list[str]]] = []

    @settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(SAMPLE, min_size=1, max_size=24), st.lists(TEXT.filter(bool), min_size=4, max_size=4))
    def draw(samples: Any, texts: list[str]) -> None:
        drawn.append((samples, texts))

    draw()
    for samples, texts in drawn:
        job = await add_job(node, samples)
        wanted = [*texts, "kowal", "BC", "abcabc"]
        before = [(await found(node, job, text), await found(node, job, text, SamplesRequest)) for text in wanted]
        await index_all(node)
        row = await get_job(node.records.store, job)
        assert row is not None
        assert await is_indexed(node.records.store, row)
        after = [(await found(node, job, text), await found(node, job, text, SamplesRequest)) for text in wanted]
        assert after == before
        assert all(one == other for one, other in before)


async def test_few_samples_are_read_for_a_rare_text(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    samples: list[Any] = [(f"Question {n:04}", "Nothing to say here", "4", "4") for n in range(200)]
    samples[150] = ("Question", "Said Kowalski: no", "4", "4")
    job = await add_job(node, samples)
    await index_all(node)
    read: list[Any] = []
    within = text_index.IndexedWindows.window

    async def noted(self: Any, *place: Any) -> Any:
        window = await within(self, *place)
        read.extend(window.ranges or ())
        return window

    monkeypatch.setattr(text_index.IndexedWindows, "window", noted)
    assert await found(node, job, "kowalski") == [151]
    assert len(set(read)) == 1, "one block of a hundred"
    read.clear()
    assert not await found(node, job, "Kowalska")
    assert not read


async def test_a_job_that_is_graded_again_is_searched_without_it_until_it_is_indexed_anew(node: Node) -> None:
    job = await add_job(node, [("q", "a", "first", "x")] * 6)
    await index_all(node)
    assert len(await found(node, job, "first")) == 6
    async with node.records.store.write() as db:
        await db.execute("UPDATE grade SET expected = 'second'")
        await update_job(db, job, finished="2026-01-02T00:00:00.000Z")
    assert not await found(node, job, "first")
    assert len(await found(node, job, "second")) == 6
    again = await next_to_index(node.records.store)
    assert again is not None
    assert again.id == job
    await index_all(node)
    assert len(await found(node, job, "second")) == 6
    assert await next_to_index(node.records.store) is None


async def test_what_changes_while_it_is_indexed_is_not_used(node: Node) -> None:
    job = await add_job(node, [("q", "a", "first", "x")] * 6)
    before = await get_job(node.records.store, job)
    assert before is not None
    async with node.records.store.write() as db:
        await update_job(db, job, state="grading")
    await text_index.index(node.records, before)
    for row in (before, await get_job(node.records.store, job)):
        assert row is not None
        assert not await is_indexed(node.records.store, row)


async def test_a_job_that_is_removed_takes_its_index_along(node: Node) -> None:
    job = await add_job(node, [("q", "a", "first", "x")] * 6)
    await index_all(node)
    row = await get_job(node.records.store, job)
    assert row is not None
    async with node.records.store.write() as db:
        await put_away(db, row)
        await let_go(db, job)
    while True:
        async with node.records.store.write() as db:
            if not await remove_rows(db, job):
                break
    for table in ("search_index", "search_block"):
        assert not await node.records.store.all(f"SELECT job FROM {table}")


async def test_small_jobs_are_not_indexed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    await add_job(node, [("q", "a", "first", "x")] * 6)
    assert await next_to_index(node.records.store) is not None
    monkeypatch.setattr("rwkv_daemon.store.queries.search_index.LEAST_SAMPLES", 7)
    assert await next_to_index(node.records.store) is None
