"""Reads of a whole job: in pages, within a moment for each reply, with the same result as if all was read at once."""

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import LIMIT_S, soon

from rwkv_daemon.api import router
from rwkv_daemon.api.authentication import ApiClient
from rwkv_daemon.api.request_server import Api
from rwkv_daemon.api.requests import samples
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.rules import roles
from rwkv_daemon.samples import long_reads, paired_reading, window_search
from rwkv_daemon.store import NewJob, Store
from rwkv_daemon.store.queries.jobs import add_attempt, add_jobs, add_session
from rwkv_daemon.store.queries.samples import add_score, ingest
from rwkv_daemon.store.read_lanes import LONGEST_S, READER, LaneReader, ReadLane, reading
from rwkv_daemon.store.sqlite import SqliteStore
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord
from rwkv_data.scoring import paired_tests
from rwkv_data.scoring.metric_names import Sample
from rwkvctl.http.server import Request
from rwkvctl.protocol.replies import CompareReply, SoFarReply
from rwkvctl.protocol.requests import CompareRequest, OutlineRequest, SamplesRequest, SoFarRequest
from rwkvctl.protocol.views import ComparisonView, MetricView, ScoreView
from rwkvctl.settings import config

JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="b", kind="cot", state="done", reason="",
    detail="", priority=0, generation_key="g", grade_key="h", settings="{}", grader="number", grader_version="1",
    configuration='{"stages": [{"name": "a"}]}', grading="{}", benchmark_version=1, rows_sha256="r", seed=42,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=1, run_log_dir="",
)  # fmt: skip
Values = Sequence[Sequence[float | None]]
"""Of each row, of each repeat."""


@pytest.fixture
async def node(store: Store, tmp_path: Path) -> Node:
    chosen = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    async with store.write() as db:
        await add_session(db, "s", "{}", "host", ("0", "c"))
    return Node.of(chosen, store, NodeBenchmarks(chosen.data_dir))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a handful of samples is many."""
    monkeypatch.setattr(window_search, "FIRST", 3)
    monkeypatch.setattr(window_search, "MOST", 7)
    monkeypatch.setattr(paired_reading, "MOST_AT_ONCE", 4)


async def add_run(node: Node, values: Values, *, primary: str = "accuracy", state: str = "done") -> int:
    """A job with a score and samples of these values."""
    repeats = max(map(len, values), default=1)
    job = replace(JOB, repeats=repeats, total=repeats * len(values), state=state)
    records: list[Record] = []
    for row, own in enumerate(values):
        for repeat, value in enumerate(own):
            records.append(
                StageRecord(row=row, repeat=repeat, stage=0, text=f"T{row}", prompt=f"Q{row}", stop="stop_token")
            )
            reason = "error" if value is None else "right" if value else "wrong"
            records.append(
                SampleRecord(row=row, repeat=repeat, value=value, reason=reason, extracted=f"{row}", expected="E")
            )
    view = ScoreView(
        job="", model="m", benchmark="b", kind="cot", version=1, primary=primary, n=1, rows=1, repeats=repeats,
        metrics={primary: MetricView(value=0.5)}, partial=False, provenance={"rows_sha256": "r"},
    )  # fmt: skip
    async with node.records.store.write() as db:
        [number] = await add_jobs(db, "s", [job])
        await add_attempt(db, number, 1, f"uuid-{number}")
        await ingest(db, number, 1, "h", records, 1)
        view = msgspec.structs.replace(view, job=f"j{number}")
        await add_score(db, number, "h", "2026-01-01T00:00:00Z", msgspec.json.encode(view).decode())
    return number


def plainly(a: Values, b: Values, primary: str) -> paired_tests.PairedComparison:
    """What comparing all rows at once gives."""
    rows = [row for row in range(min(len(a), len(b))) if None not in (*a[row], *b[row])]
    sides = [
        paired_tests.row_values(
            primary, [[Sample(row, n, value, "", "", "") for n, value in enumerate(side[row])] for row in rows]
        )
        for side in (a, b)
    ]
    single = all(len(row) == 1 for row in (*a, *b))
    return paired_tests.pair(*sides, verdicts=single)


def same(view: ComparisonView | SoFarReply, plain: paired_tests.PairedComparison) -> bool:
    """Whether a reply says what was computed, to the last bit."""
    known = view.difference
    assert known is not None
    found = (view.rows, (known.value, known.stderr, known.ci_low, known.ci_high), view.p, view.test)
    return found == (plain.rows, tuple(plain.difference), plain.p, plain.test)


verdict = st.sampled_from([0.0, 1.0])
SINGLE = st.lists(st.tuples(verdict), min_size=1, max_size=25)
SHARES = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1 / 3, 1.0])), min_size=1, max_size=12)
REPEATED = st.lists(st.tuples(verdict, verdict, verdict), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("runs", "primary"), [(SINGLE, "accuracy"), (SHARES, "accuracy"), (REPEATED, "avg@3"), (REPEATED, "pass@2")]
)
async def test_what_is_read_in_pages_is_compared_to_the_same_bits(node: Node, runs: Any, primary: str) -> None:
    drawn: list[tuple[Values, Values]] = []

    @settings(max_examples=6, suppress_health_check=list(HealthCheck), database=None)
    @given(st.tuples(runs, runs))
    def draw(values: tuple[Values, Values]) -> None:
        drawn.append(values)

    draw()
    for first, second in drawn:
        rows = min(len(first), len(second))
        a, b = first[:rows], second[:rows]
        numbers = [await add_run(node, values, primary=primary) for values in (a, b)]
        request = CompareRequest(a=f"j{numbers[0]}", b=f"j{numbers[1]}", flips=1000)
        reply = await router.answer(node, request)
        assert isinstance(reply, CompareReply)
        plain = plainly(a, b, primary)
        assert same(reply.items[0], plain)
        assert (reply.items[0].a, reply.items[0].b) == (plain.a, plain.b)
        assert [flip.row for flip in reply.items[0].flips] == [
            row for row in range(rows) if values_of(a[row], primary) != values_of(b[row], primary)
        ]


def values_of(row: Sequence[float | None], primary: str) -> float:
    return paired_tests.row_values(primary, [[Sample(0, n, value, "", "", "") for n, value in enumerate(row)]])[0]


async def test_rows_of_one_side_only_are_counted(node: Node) -> None:
    a = await add_run(node, [(1.0,)] * 9 + [(None,)])
    b = await add_run(node, [(1.0,), (0.0,)] * 8)
    reply = await router.answer(node, CompareRequest(a=f"j{a}", b=f"j{b}"))
    assert isinstance(reply, CompareReply)
    assert reply.items[0].why == "7 rows are in one of them only, or have no verdict in both"
    reply = await router.answer(node, CompareRequest(a=f"j{a}", b=f"j{b}", force=True))
    assert isinstance(reply, CompareReply)
    assert (reply.items[0].rows, reply.items[0].left_out, reply.items[0].only_a) == (9, 7, 4)


@pytest.mark.parametrize("values", [[(1.0,), (0.0,)] * 9, [(1.0, 0.0), (0.0, None)] * 9])
async def test_a_job_is_paired_with_the_last_run_in_pages(node: Node, values: Values) -> None:
    await add_run(node, values[::-1] if len(values[0]) == 1 else values)
    job = await add_run(node, values, state="generating")
    reply = await until_found(node, SoFarRequest(job=f"j{job}"))
    assert isinstance(reply, SoFarReply)
    whole = [list(row) for row in values if None not in row]
    before = [list(row) for row in values[::-1]] if len(values[0]) == 1 else whole
    means = [[[sum(row) / len(row)] for row in side] for side in (before, whole)]
    plain = paired_tests.pair([row[0] for row in means[0]], [row[0] for row in means[1]], verdicts=True)
    assert same(reply, plain)


async def until_found(node: Node, request: Any) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while True:
            reply: Any = await router.answer(node, request)
            if not reply.looking:
                return reply


async def test_two_scores_are_compared_once_unless_flips_are_wanted_or_they_change(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    all_of = type(node.records.store).all

    async def all_and_tell(store: Any, sql: str, parameters: Sequence[Any] = ()) -> Any:
        read.append(sql)
        return await all_of(store, sql, parameters)

    monkeypatch.setattr(type(node.records.store), "all", all_and_tell)
    a, b = [await add_run(node, values) for values in ([(1.0,)] * 4, [(1.0,), (0.0,)] * 2)]
    request = CompareRequest(a=f"j{a}", b=f"j{b}")
    first = await router.answer(node, request)

    async def asks_samples(request: CompareRequest) -> bool:
        read.clear()
        await router.answer(node, request)
        return any("grade" in sql and "score" not in sql for sql in read)

    assert not await asks_samples(request)
    assert await router.answer(node, request) == first
    assert await asks_samples(msgspec.structs.replace(request, flips=5))
    view = ScoreView(
        job=f"j{b}", model="m", benchmark="b", kind="cot", version=1, primary="accuracy", n=1, rows=1, repeats=1,
        metrics={"accuracy": MetricView(value=0.5)}, partial=False, provenance={"rows_sha256": "r"},
        finished="2027-01-01T00:00:00Z",
    )  # fmt: skip
    async with node.records.store.write() as db:
        await add_score(db, b, "h", "2027-01-01T00:00:00Z", msgspec.json.encode(view).decode())
    assert await asks_samples(request)


# -- what cannot end


@contextlib.asynccontextmanager
async def stuck(store: SqliteStore, lane: ReadLane) -> AsyncIterator[threading.Event]:
    """While no query of a lane gets on; the event lets them."""
    go = threading.Event()
    before = store.lanes[lane].free.copy()

    def wait() -> int:
        go.wait()
        return 0

    for connection in before:
        await connection.set_progress_handler(wait, 1)
    try:
        yield go
    finally:
        go.set()
        for connection in before:
            await connection.set_progress_handler(None, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("store_at", ["sqlite"], indirect=True)
async def test_searches_that_cannot_end_answer_and_hold_up_nothing(
    node: Node, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = f"j{await add_run(node, [(1.0,)] * 20)}"
    requests: list[Any] = [
        OutlineRequest(job=job, text="nowhere"), SamplesRequest(job=job, text="nowhere"),
        SamplesRequest(job=job, wrong=True), SamplesRequest(job=job, text="nowhere", latest=True),
    ]  # fmt: skip
    monkeypatch.setattr(window_search, "ANSWER_S", 0.05)
    async with stuck(store, ReadLane.LONG) as go:
        asked = [asyncio.ensure_future(answered_to(node, request, who)) for who, request in enumerate(requests)]
        await soon(lambda: not store.lanes[ReadLane.LONG].free, "they are looking")
        other = await add_run(node, [(1.0,)] * 5)  # stored meanwhile
        with reading(LaneReader(ReadLane.REQUESTS, "another")):
            page: Any = await router.answer(node, SamplesRequest(job=f"j{other}"))
        assert len(page.items) == 5
        async with asyncio.timeout(LIMIT_S):
            replies = [await one for one in asked]
        assert all(reply.looking and not reply.looked for reply in replies)
        go.set()
    for request in requests:
        assert not (await until_all(node, request)), "there are none"


async def answered_to(node: Node, request: Any, who: int) -> Any:
    READER.set(LaneReader(ReadLane.REQUESTS, who))
    return await router.answer(node, request)


async def until_all(node: Node, request: Any) -> list[int]:
    """The numbers of all samples, page by page as a client asks."""
    found: list[int] = []
    async with asyncio.timeout(LIMIT_S):
        while True:
            reply: Any = await router.answer(node, request)
            found += [item.number for item in reply.items] if hasattr(reply, "items") else reply.numbers
            if reply.next < 0 and not reply.looking:
                return found
            request = msgspec.structs.replace(request, after=reply.next)


async def test_all_that_is_wanted_is_found_page_by_page(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_search, "ANSWER_S", 0.0)  # each reply is about one query
    job = f"j{await add_run(node, [(float(row % 3 == 0),) for row in range(40)])}"
    right = [row + 1 for row in range(40) if row % 3 == 0]
    wrong = [row + 1 for row in range(40) if row % 3]
    assert await until_all(node, SamplesRequest(job=job, wrong=True)) == wrong
    assert await until_all(node, SamplesRequest(job=job, reason="right", limit=2)) == right
    assert await until_all(node, SamplesRequest(job=job, reason="right", latest=True, limit=5)) == right[::-1]
    assert await until_all(node, SamplesRequest(job=job, latest=True, limit=7)) == list(range(40, 0, -1))
    assert await until_all(node, OutlineRequest(job=job, text="q1")) == [2, *range(11, 21)]
    assert await until_all(node, SamplesRequest(job=job, text="t39")) == [40]


async def test_a_page_of_long_texts_is_short(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "BATCH", 5)
    monkeypatch.setattr(samples, "MOST_CHARACTERS", 30)
    job = f"j{await add_run(node, [(1.0,)] * 40)}"
    reply: Any = await router.answer(node, SamplesRequest(job=job))
    assert 0 < len(reply.items) < 40
    assert await until_all(node, SamplesRequest(job=job)) == list(range(1, 41))
    assert await until_all(node, SamplesRequest(job=job, latest=True)) == list(range(40, 0, -1))


@pytest.mark.parametrize("store_at", ["sqlite"], indirect=True)
async def test_comparisons_that_take_long_say_how_far_they_are(
    node: Node, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_reads, "ANSWER_S", 0.01)
    a, b = [await add_run(node, [(1.0,)] * 10) for _ in range(2)]
    running = await add_run(node, [(1.0,)] * 5, state="generating")
    request = CompareRequest(a=f"j{a}", b=f"j{b}", partial=True)
    async with stuck(store, ReadLane.LONG) as go:
        reply: Any = await router.answer(node, request)
        assert reply.looking
        assert (reply.items, reply.counts) == ((), {})
        so_far: Any = await router.answer(node, SoFarRequest(job=f"j{running}"))
        assert so_far.looking
        assert so_far.note.startswith(f"still comparing with j{b}: ")
        go.set()
    found = await until_found(node, request)
    assert (found.items[0].rows, found.counts) == (10, {"no difference shown": 1})
    assert (await until_found(node, SoFarRequest(job=f"j{running}"))).rows == 5
    await soon(lambda: not node.comparisons.questions.under_way, "nothing is left")


async def test_one_user_does_not_take_all_the_places(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "ANSWER_S", 0.01)
    go = asyncio.Event()

    async def begin(progress: long_reads.QuestionProgress) -> str:
        await go.wait()
        return "found"

    def asked(question: int, who: str) -> Any:
        with reading(LaneReader(ReadLane.REQUESTS, who)):
            return node.comparisons.questions.answer(question, begin)

    for question in range(long_reads.OF_ONE):
        with reading(LaneReader(ReadLane.REQUESTS, "a")):
            assert await node.comparisons.questions.answer(question, begin) == long_reads.QuestionProgress()
    with reading(LaneReader(ReadLane.REQUESTS, "a")):
        told = await node.comparisons.questions.answer(99, begin)
    assert isinstance(told, long_reads.QuestionProgress)
    assert told.sentence.startswith("waiting for its turn")
    with reading(LaneReader(ReadLane.REQUESTS, "b")):
        assert await node.comparisons.questions.answer(99, begin) == long_reads.QuestionProgress()
    go.set()
    for question in (*range(long_reads.OF_ONE), 99):
        with reading(LaneReader(ReadLane.REQUESTS, "c")):
            assert await node.comparisons.questions.answer(question, begin) == "found"
    assert not node.comparisons.questions.under_way


async def test_what_nobody_asks_for_any_more_is_dropped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "ANSWER_S", 0.01)
    monkeypatch.setattr(long_reads, "FORGOTTEN_S", 0.02)
    ended = asyncio.Event()

    async def begin(progress: long_reads.QuestionProgress) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert isinstance(await node.comparisons.questions.answer("q", begin), long_reads.QuestionProgress)
    async with asyncio.timeout(LIMIT_S):
        await ended.wait()
    assert not node.comparisons.questions.under_way


class OpenDoor:
    """Lets everybody in as an admin."""

    def check(self, request: Request) -> None:
        """Admit every request."""

    async def client(self, request: Request) -> ApiClient:
        return ApiClient(roles.Actor(0, 0, 0, "somebody"), roles.Role.ADMIN, "somebody")


async def test_a_request_whose_query_takes_too_long_is_told_so(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LONGEST_S, ReadLane.REQUESTS, 0.0)
    request = Request("GET", "/v1/status", {}, {}, b"", None, asyncio.Event())
    response = await Api(node, OpenDoor())(request)
    assert isinstance(response.body, bytes)
    said = msgspec.json.decode(response.body)
    assert (response.status, said["code"]) == (503, "too-long")
    assert said["detail"] == "The request took too long: a query took more than 0 s."


@pytest.mark.parametrize("asked", ["compare", "so far", "outline", "search"])
async def test_only_windows_are_read_in_the_lane_of_long_reads(
    node: Node, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """A window that takes too long is read again, smaller. Any other query is asked once, and in the little time of
    this lane it failed on a busy node: the client was told that the request took too long."""
    numbers = [await add_run(node, [(float(row % 3 == 0),) for row in range(12 + side)]) for side in (0, 1)]
    kind, lanes = type(node.records.store), list[tuple[ReadLane, str]]()
    plain = kind.all

    async def watched(store: Any, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        lanes.append((READER.get().lane, sql))
        return await plain(store, sql, parameters)

    monkeypatch.setattr(kind, "all", watched)
    first, second = (f"j{number}" for number in numbers)
    requests: dict[str, Any] = {
        "compare": CompareRequest(a=first, b=second),
        "so far": SoFarRequest(job=second),
        "outline": OutlineRequest(job=first),
        "search": SamplesRequest(job=first, text="T1"),
    }
    with reading(LaneReader(ReadLane.REQUESTS, "me")):
        await router.answer(node, requests[asked])
    windows = {sql for lane, sql in lanes if lane is ReadLane.LONG}
    assert bool(windows) == (asked != "outline")
    begins, ends = re.compile(r"row(, repeat\))? >"), re.compile(r"row(, repeat\))? <=|LIMIT")
    assert all(begins.search(sql) and ends.search(sql) for sql in windows), windows
    assert {lane for lane, sql in lanes if sql not in windows} == {ReadLane.REQUESTS}
