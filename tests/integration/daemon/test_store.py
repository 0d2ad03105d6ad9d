"""What a store promises, on SQLite and on PostgreSQL: transactions, ingesting, and telling what happened."""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.changes import event_bus
from rwkv_daemon.node import Node
from rwkv_daemon.remote.server_reply import ServerReply, TokenUsage
from rwkv_daemon.store import NewJob, Store, StoreError
from rwkv_daemon.store.queries import verdicts
from rwkv_daemon.store.queries.deletions import (
    bring_back,
    deleted_before,
    let_go,
    let_go_of,
    measured,
    put_away,
    remove_rows,
    state_before,
)
from rwkv_daemon.store.queries.jobs import (
    add_attempt,
    add_job,
    add_session,
    attempts_of,
    get_job,
    remember_reply,
    remembered_reply,
    update_job,
)
from rwkv_daemon.store.queries.sample_pages import SampleFilter, page
from rwkv_daemon.store.queries.samples import add_score, graded, ingest, refresh_counts, scores_of, stages_of
from rwkv_daemon.upkeep import store_maintenance
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.requests import EventsRequest
from rwkvctl.settings import config

NEW_JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="gsm8k", kind="cot", state="queued", reason="",
    detail="", priority=0, generation_key="g", grade_key="h", settings="{}", configuration="{}", grader="number",
    grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r",
    seed=42, row_limit=None, numerics="fp32", repeats=2,
    stages=2, total=6, run_log_dir="",
)  # fmt: skip


@pytest.fixture
async def job(store: Store) -> int:
    """A job with two attempts."""
    async with store.write() as db:
        await add_session(db, "s", "{}", "host", ("0", "c"))
        number = await add_job(db, "s", NEW_JOB)
        await add_attempt(db, number, 1, "uuid-1")
        await add_attempt(db, number, 2, "uuid-2")
    return number


async def add_events(store: Store, count: int, session: str = "") -> None:
    async with store.write() as db:
        for number in range(count):
            await event_bus.record(db, "daemon", session=session, text=f"event {number}")


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("generating", {"old", "new"}),
        ("paused", {"old", "new"}),
        ("stopped", {"new"}),
        ("failed", {"new"}),
        ("done", set()),
    ],
)
async def test_replies_of_an_endpoint_are_kept_as_long_as_a_job_may_ask_for_them(
    store: Store, job: int, state: str, kept: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = {name: verdicts.StoredReplies(store, name) for name in ("endpoint:qwq", "endpoint:other", "judge")}
    for at, key in (("2026-01-01T00:00:00.000Z", "old"), ("2026-02-01T00:00:00.000Z", "new")):
        monkeypatch.setattr(verdicts, "now", lambda at=at: at)
        for name, one in replies.items():
            await one.put(f"{name} {key}", ServerReply(key, usage=TokenUsage(3, 4, 0.5)), "j1")
    async with store.write() as db:
        await update_job(db, job, state=state, weights_path="endpoint:qwq")
        await verdicts.forget_texts(db, "2026-01-15T00:00:00Z")
    found = {(name, key) for name, one in replies.items() for key in ("old", "new") if await one.get(f"{name} {key}")}
    assert found == {("judge", "old"), ("judge", "new"), *(("endpoint:qwq", key) for key in kept)}
    assert await verdicts.spent(store, "endpoint:other", "never") == TokenUsage(6, 8, 1.0)


async def test_what_a_job_has_paid_is_known_by_service_with_its_unusable_replies(store: Store) -> None:
    writer, judge = (verdicts.StoredReplies(store, name) for name in ("endpoint:writer", "judge"))
    await writer.put("first", ServerReply("1", usage=TokenUsage(3, 4, 0.5)), "j2")
    await writer.put("second unusable", ServerReply("", usage=TokenUsage(1, 2, 0.25)), "j2")
    await writer.put("probed", ServerReply("2", usage=TokenUsage(9, 9, 9.0)), "probe")
    await judge.put("third", ServerReply("3", usage=TokenUsage(5, 6, 0.125)), "j2")
    for text, job in (("again", "j2"), ("at last", "j10")):  # asked again: each has paid its own
        await judge.put("third", ServerReply(text, usage=TokenUsage(7, 8, 0.0)), job)
    assert await judge.get("third") == ServerReply("at last", usage=TokenUsage(7, 8, 0.0))
    async with store.write() as db:
        await verdicts.forget_texts(db, "2999-01-01T00:00:00Z")
    assert await verdicts.paid_by(store, ["j2", "j10", "j3", *(f"j{number}" for number in range(100, 1200))]) == [
        ("j10", "judge", TokenUsage(7, 8, 0.0)),
        ("j2", "endpoint:writer", TokenUsage(4, 6, 0.75)),
        ("j2", "judge", TokenUsage(12, 14, 0.125)),
    ]
    assert await verdicts.spent(store, "judge", "never") == TokenUsage(19, 22, 0.125)


# -- transactions


async def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match=r"readonly|read-only|query_only"):
        await store.all("DELETE FROM event")


async def test_a_block_that_raises_or_is_cancelled_leaves_nothing_and_the_store_goes_on(store: Store) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with store.write() as db:
            await event_bus.record(db, "daemon", text="lost")
            raise ZeroDivisionError
    entered = asyncio.Event()

    async def waits_inside() -> None:
        async with store.write() as db:
            await event_bus.record(db, "daemon", text="lost")
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(waits_inside())
    async with asyncio.timeout(LIMIT_S):
        await entered.wait()
        task.cancel()
        await asyncio.wait([task])
        await add_events(store, 1)
    assert [event.text for event in await event_bus.stored(store, 0)] == ["event 0"]


async def test_a_writer_that_is_cancelled_at_any_moment_leaves_all_of_it_or_nothing(store: Store) -> None:
    kept = 0
    for steps in range(40):
        task = asyncio.ensure_future(add_events(store, 3))
        for _ in range(steps):
            await asyncio.sleep(0.0005 * (steps % 3))
        task.cancel()
        await asyncio.wait([task], timeout=LIMIT_S)
        kept += 0 if task.cancelled() else 3
        await add_events(store, 3)
        kept += 3
        found = len(await event_bus.stored(store, 0))
        assert found in {kept, kept + 3}, "a commit that was under way may have been made"
        kept = found


async def test_readers_see_the_last_commit_while_a_writer_is_busy(store: Store) -> None:
    await add_events(store, 1)
    async with asyncio.timeout(LIMIT_S):
        async with store.write() as db:
            await event_bus.record(db, "daemon", text="not yet")
            assert len(await event_bus.stored(store, 0)) == 1
        assert len(await event_bus.stored(store, 0)) == 2


async def test_a_statement_that_fails_fails_the_transaction_with_our_own_error(store: Store) -> None:
    for sql in ("SELECT nothing FROM event", "INSERT INTO event (seq) VALUES (1)", "no SQL at all"):
        with pytest.raises(StoreError):
            await add_and(store, sql)
    assert not await event_bus.stored(store, 0)
    await add_events(store, 1)


async def add_and(store: Store, sql: str) -> None:
    """Store something, then run a statement in the same transaction."""
    async with store.write() as db:
        await event_bus.record(db, "daemon", text="lost")
        await db.execute(sql)


async def test_a_transaction_says_how_many_rows_it_changed(store: Store) -> None:
    await add_events(store, 5)
    async with store.write() as db:
        assert await db.execute("UPDATE event SET text = 'x' WHERE seq > ?", (2,)) == 3
        assert await db.execute("DELETE FROM event WHERE seq > ?", (90,)) == 0
        assert await db.execute("DELETE FROM event") == 5


async def test_numbers_and_texts_come_back_as_they_were(store: Store) -> None:
    text = "NUL \0, \U0010fffe0, é, \u2028, '?', $1"
    async with store.write() as db:
        await db.execute("INSERT INTO request VALUES (?, ?, ?)", (text, "at", b"\0\xff"))
        await db.execute(
            "INSERT INTO weights VALUES (?, ?, ?, ?, ?, ?, '', 0, '')", (2**62, 2**40, 0, -(2**62), text, text)
        )
    row = await store.one("SELECT * FROM request WHERE id = ?", (text,))
    assert row is not None
    assert tuple(row) == (text, "at", b"\0\xff")
    row = await store.one("SELECT SUM(inode) AS a, COUNT(*) AS b, AVG(inode) AS c, MAX(device) AS d FROM weights")
    assert row is not None
    assert [(value, type(value)) for value in row][:2] == [(2**40, int), (1, int)]
    assert (float(row["c"]), row["d"]) == (float(2**40), 2**62)


async def test_texts_are_in_the_order_of_their_bytes(store: Store) -> None:
    names = ["b", "B", "a", "é", "_", "Z", "1"]
    async with store.write() as db:
        await db.many("INSERT INTO request VALUES (?, '', ?)", [(name, b"") for name in names])
    assert [row["id"] for row in await store.all("SELECT id FROM request ORDER BY id")] == sorted(names)


async def test_answers_nobody_asks_for_again_are_forgotten(node: Node) -> None:
    async with node.records.store.write() as db:
        await remember_reply(db, "new", b"{}")
        await db.execute("INSERT INTO request VALUES ('old', '2026-01-01T00:00:00.000Z', ?)", (b"{}",))
    await store_maintenance.tidy(node.records)
    assert await remembered_reply(node.records.store, "new") == b"{}"
    assert await remembered_reply(node.records.store, "old") is None


# -- samples


def records_of(rows: int = 3, repeats: int = 2) -> list[Record]:
    found: list[Record] = []
    for row in range(rows):
        for repeat in range(repeats):
            for stage in range(2):
                prompt = f"prompt {row}.{stage}" if not repeat else None
                found.append(
                    StageRecord(row=row, repeat=repeat, stage=stage, ids=(1, row), text=f"t\0{row} é", prompt=prompt)
                )
            value = None if row == 2 else float(repeat)
            reason = "error" if value is None else "right" if value else "wrong"
            found.append(SampleRecord(row=row, repeat=repeat, value=value, reason=reason))
    return found


async def put(store: Store, job: int, records: list[Record], attempt: int = 1, offset: int = 0) -> Any:
    async with store.write() as db:
        return await ingest(db, job, attempt, "h", records, offset)


async def test_what_is_ingested_is_counted_and_read_again(store: Store, job: int) -> None:
    counts = await put(store, job, records_of(), offset=1234)
    assert (counts.done, counts.stages_done, counts.right_sum, counts.judged) == (6, 12, 2.0, 4)
    row = await get_job(store, job)
    assert row is not None
    assert (row.done, row.stages_done, row.right_sum, row.judged) == (6, 12, 2.0, 4)
    assert [attempt.ingested for attempt in await attempts_of(store, job)] == [1234, 0]
    (first, second) = (await stages_of(store, job, [(1, 1)]))[1, 1]
    assert (first["prompt"], first["text"], second["prompt"]) == ("prompt 1.0", "t\x001 é", "prompt 1.1")
    assert len(await graded(store, job, "h")) == 6
    assert not await graded(store, job, "another grade key")
    wrong = await page(store, job, "h", SampleFilter(wrong=True), after=-1, limit=10)
    assert [(r["row"], r["repeat"]) for r in wrong] == [(0, 0), (1, 0), (2, 0), (2, 1)]


async def test_ingesting_twice_changes_nothing(store: Store, job: int) -> None:
    everything = records_of()
    first = await put(store, job, everything)
    before = [tuple(row) for row in await store.all("SELECT * FROM completion")]
    changed: list[Record] = [SampleRecord(row=0, repeat=0, value=1.0, reason="right")]
    for again in (everything, everything[3:8], changed):
        assert await put(store, job, again, attempt=2) == first
    assert [tuple(row) for row in await store.all("SELECT * FROM completion")] == before
    assert {row["attempt"] for row in await store.all("SELECT attempt FROM sample")} == {1}


@pytest.mark.parametrize("seed", range(4))
async def test_slices_in_any_order_and_overlap_give_the_same_counts(store: Store, job: int, seed: int) -> None:
    everything, draw = records_of(), random.Random(seed)
    counts, seen = None, 0
    pieces = [everything[start : start + draw.randint(1, 7)] for start in range(len(everything))]
    draw.shuffle(pieces)
    for piece in pieces:
        counts = await put(store, job, piece, attempt=draw.randint(1, 2))
        assert counts.done >= seen
        seen = counts.done
    assert counts is not None
    assert (counts.done, counts.stages_done, counts.right_sum, counts.judged) == (6, 12, 2.0, 4)


async def test_what_is_counted_anew_is_what_was_counted_as_it_came(store: Store, job: int) -> None:
    """A grade without a verdict is done and not judged: else a job that is graded again would show a share too low."""
    grown = await put(store, job, records_of())
    async with store.write() as db:
        await update_job(db, job, done=0, stages_done=0, right_sum=0.0, judged=0)
        assert await refresh_counts(db, job, "h") == grown
    row = await get_job(store, job)
    assert row is not None
    assert (row.done, row.stages_done, row.right_sum, row.judged) == (6, 12, 2.0, 4)


async def test_offset_and_samples_are_stored_together_or_not_at_all(store: Store, job: int) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with store.write() as db:
            await ingest(db, job, 1, "h", records_of(), 999)
            raise ZeroDivisionError
    row = await get_job(store, job)
    assert row is not None
    assert (row.done, [a.ingested for a in await attempts_of(store, job)]) == (0, [0, 0])
    assert not await store.all("SELECT * FROM sample")


async def test_a_job_that_does_not_exist_takes_no_samples(store: Store, job: int) -> None:
    with pytest.raises(StoreError):
        await put(store, job + 1, records_of())
    assert not await store.all("SELECT * FROM completion")


# -- events


@pytest.fixture
async def node(tmp_path: Path, store: Store) -> Node:
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    return Node.of(settings, store, NodeBenchmarks(settings.data_dir))


async def test_a_group_of_events_is_published_in_order_once_it_is_stored(node: Node) -> None:
    with node.records.bus.follow() as queue:
        async with node.records.change() as change:
            for number in range(3):
                await change.note("daemon", text=f"{number}")
            assert queue.empty(), "not before the commit"
            assert not await event_bus.stored(node.records.store, 0)
        published = [queue.get_nowait() for _ in range(3)]
    assert [(event.seq, event.text) for event in published] == [(1, "0"), (2, "1"), (3, "2")]
    assert await event_bus.stored(node.records.store, 0) == published
    assert await event_bus.stored(node.records.store, 2) == published[2:]
    assert (node.records.bus.last, node.records.wake.is_set()) == (3, True)


async def test_a_group_that_fails_is_neither_stored_nor_published(node: Node) -> None:
    with node.records.bus.follow() as queue:
        with contextlib.suppress(ZeroDivisionError):
            async with node.records.change() as change:
                await change.note("daemon", text="never")
                raise ZeroDivisionError
        assert queue.empty()
    assert not await event_bus.stored(node.records.store, 0)


async def test_a_follower_who_comes_in_the_middle_misses_nothing_and_gets_nothing_twice(node: Node) -> None:
    groups, size = 40, 5
    halfway = asyncio.Event()

    async def write() -> None:
        for number in range(groups):
            async with node.records.change() as change:
                for _ in range(size):
                    await change.note("daemon", session="s" if number % 2 else "t")
            if number == groups // 4:
                halfway.set()

    async def follow(session: str, wanted: int) -> list[int]:
        await halfway.wait()
        found: list[int] = []
        async for event in event_bus.stream(
            node.records.bus, node.records.store, since=3, follow=True, session=session
        ):
            found.append(event.seq)
            if len(found) == wanted:
                break
        return found

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        everything = tasks.create_task(follow("", groups * size - 3))
        own = tasks.create_task(follow("s", groups * size // 2))
        tasks.create_task(write())
    assert everything.result() == list(range(4, groups * size + 1))
    assert own.result() == [n for n in range(1, groups * size + 1) if (n - 1) // size % 2]


async def test_a_follower_of_what_is_stored_hears_no_telemetry_but_that_the_daemon_lives(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_bus, "HEARTBEAT_S", 0.05)
    found: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        stream = event_bus.stream(
            node.records.bus, node.records.store, since=0, follow=True, session="", only_stored=True
        )
        async for event in stream:
            node.records.bus.publish([event_bus.live_event("lease"), event_bus.live_event("engine.stats")])
            found.append(event.kind)
            if found == ["heartbeat"]:
                async with node.records.change() as change:
                    await change.note("daemon")
            if len(found) == 3:
                break
    assert found == ["heartbeat", "daemon", "heartbeat"]


async def test_a_follower_still_reading_the_past_hears_that_the_store_is_away_and_misses_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, away = event_bus.stored, True

    async def stored(*wanted: Any) -> list[Event]:
        if away:
            raise StoreError("no such server")
        return await read(*wanted)

    monkeypatch.setattr(event_bus, "stored", stored)
    stream = event_bus.stream(node.records.bus, node.records.store, since=0, follow=True, session="")
    async with asyncio.timeout(LIMIT_S):
        first = asyncio.ensure_future(anext(stream))
        while not node.records.bus.followers:
            await asyncio.sleep(0)
        async with node.records.change() as change:
            await change.note("daemon", text="stored meanwhile")
        node.records.bus.publish([event_bus.live_event("store", text="away")])
        kinds = [(await first).kind, (await anext(stream)).kind]
        assert kinds == ["heartbeat", "store"]
        away = False
        node.records.bus.publish([event_bus.live_event("store", text="back")])
        told = [await anext(stream) for _ in range(2)]
    assert [(event.kind, event.text) for event in told] == [("daemon", "stored meanwhile"), ("store", "back")]


async def test_a_page_of_the_past_ends_at_a_number_or_a_time(node: Node) -> None:
    await add_events(node.records.store, 25)
    every = await event_bus.stored(node.records.store, 0)

    async def numbers(**wanted: Any) -> list[int]:
        return [event.seq async for event in event_bus.page(node.records.store, EventsRequest(**wanted))]

    assert await numbers(limit=10) == list(range(16, 26))
    assert await numbers(limit=10, before=16) == list(range(6, 16))
    assert await numbers(limit=10, before=6) == list(range(1, 6))
    assert await numbers(limit=10, before=1) == []
    assert await numbers(limit=3, until="2000-01-01T00:00:00.000Z") == []
    assert await numbers(limit=3, until="3000-01-01T00:00:00.000Z") == [23, 24, 25]
    earlier = [event.seq for event in every if event.at < every[20].at]
    assert await numbers(limit=100, until=every[20].at) == earlier
    assert await numbers(limit=100, session="other") == []
    assert await numbers(limit=10**9, before=2**63) == list(range(1, 26))


async def test_a_follower_who_does_not_read_is_told_to_go(node: Node) -> None:
    with node.records.bus.follow() as slow, node.records.bus.follow() as quick:
        for number in range(event_bus.QUEUE + 5):
            node.records.bus.publish([event_bus.live_event("job.progress", text=str(number))])
            assert quick.get_nowait() is not None
        kept = [slow.get_nowait() for _ in range(slow.qsize())]
    assert kept == [None], "half a stream would look whole to whoever comes back with the last number"
    assert not node.records.bus.followers


# -- deleting


async def test_a_deleted_job_loses_its_scores_until_it_is_brought_back(store: Store, job: int) -> None:
    async with store.write() as db:
        await add_score(db, job, "h", "2026", "{}")
        row = await get_job(store, job)
        assert row is not None
        await put_away(db, row)
        await update_job(db, job, state="deleted")
    assert await get_job(store, job) is None
    assert await scores_of(store, [job]) == {}
    assert await measured(store, [job]) == (0, 1)
    assert (await deleted_before(store, "2999"), await deleted_before(store, "2000")) == ([f"j{job}"], [])
    found = await state_before(store, job)
    assert found is not None
    assert found[1] == "queued"
    async with store.write() as db:
        await bring_back(db, job)
    assert await scores_of(store, [job]) == {job: "{}"}
    assert await deleted_before(store, "2999") == []


async def test_a_job_is_removed_piece_by_piece_with_all_that_it_has(store: Store, job: int) -> None:
    records: list[Record] = [StageRecord(row=row, repeat=0, stage=0, prompt="p", engine="e1") for row in (0, 3, 700)]
    records += [SampleRecord(row=row, repeat=0, value=1.0, reason="right") for row in (0, 3, 700)]
    async with store.write() as db:
        await ingest(db, job, 1, "h", records, 1)
        row = await get_job(store, job)
        assert row is not None
        await put_away(db, row)
        await let_go(db, job)
    assert await state_before(store, job) is None, "nothing brings it back"
    assert await let_go_of(store) == [job]
    left = []
    for more in (True, True, False):
        async with store.write() as db:
            assert await remove_rows(db, job) is more
        left.append(len(await store.all("SELECT row FROM sample")))
    assert left == [1, 0, 0]
    for table in ("job", "attempt", "prompt", "completion", "sample", "grade", "deletion"):
        assert await store.all(f"SELECT * FROM {table}") == [], table
    assert await let_go_of(store) == []
