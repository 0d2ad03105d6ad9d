"""The store on a real file: opening, refusing, dying in the middle, ingesting, and telling what happened."""

import asyncio
import contextlib
import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon import events
from rwkv_daemon.catalogue import Benchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.rundir import Record, SampleRecord, StageRecord
from rwkv_daemon.store import NewJob, Store, StoreDamagedError, connection, open_store
from rwkv_daemon.store.jobs import add_attempt, add_job, add_session, attempts_of, get_job
from rwkv_daemon.store.samples import graded, ingest, page, stages_of
from rwkvctl import config

DEADLINE_S = 20.0
NEW_JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="gsm8k", kind="cot", state="queued", reason="",
    detail="", priority=0, generation_key="g", grade_key="h", settings="{}", configuration="{}", grader="number",
    grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r",
    seed=42, row_limit=None, numerics="fp32", repeats=2,
    stages=2, total=6, run_log_dir="",
)  # fmt: skip


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path / "store.sqlite")
    yield opened
    await opened.close()


@pytest.fixture
async def job(store: Store) -> int:
    """A job with two attempts."""
    async with store.write() as db:
        await add_session(db, "s", "{}", "host", ("0", "c"))
        number = await add_job(db, "s", NEW_JOB)
        await add_attempt(db, number, 1, "uuid-1")
        await add_attempt(db, number, 2, "uuid-2")
    return number


def check(path: Path) -> str:
    """What SQLite itself says of a file that nobody has open."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


async def add_events(store: Store, count: int, session: str = "") -> None:
    async with store.write() as db:
        for number in range(count):
            await events.record(db, "daemon", session=session, text=f"event {number}")


# -- opening


async def test_an_empty_folder_becomes_a_store_of_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "home" / "store.sqlite"
    for _ in range(2):  # made, then opened again
        store = await open_store(path)
        newest = connection.migrations()[-1][0]
        assert (await store.one("PRAGMA user_version"))[0] == newest  # type: ignore[index]
        assert (await store.one("PRAGMA journal_mode"))[0] == "wal"  # type: ignore[index]
        pragmas = [await store.writer.execute_fetchall(f"PRAGMA {name}") for name in ("synchronous", "foreign_keys")]
        assert [tuple(row) for rows in pragmas for row in rows] == [(2,), (1,)]
        names = {row["name"] for row in await store.all("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"job", "attempt", "completion", "sample", "grade", "score", "event"} <= names
        await store.close()
    assert check(path) == "ok"
    assert not path.with_name("store.sqlite-wal").exists(), "closed tidily"


async def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(sqlite3.OperationalError, match=r"readonly|read-only|query_only"):
        await store.all("DELETE FROM event")


async def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    await (await open_store(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 9999")
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match=r"newer rwkvctl \(schema 9999, .*Upgrade rwkvctl"):
        await open_store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["no database", "first page", "short"])
async def test_a_damaged_store_is_refused_and_kept_as_evidence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_store(path)
    await add_events(store, 50)
    await store.close()
    content = path.read_bytes()
    path.write_bytes(
        {
            "no database": b"these are not the bytes of a database\n" * 200,
            "first page": content[:100] + b"\xff" * 3996 + content[4096:],
            "short": content[:5000],
        }[damage]
    )
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match=f"{path} cannot be used as a store .*Nothing was changed"):
        await open_store(path)
    assert path.read_bytes() == before


def test_a_daemon_with_a_damaged_store_says_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database\n" * 500)
    daemon = subprocess.run(
        [sys.executable, "-m", "rwkv_daemon", "--home", str(tmp_path), "--socket", str(tmp_path / "d.sock")],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert daemon.returncode == 1
    assert "cannot be used as a store" in daemon.stderr
    assert "Traceback" not in daemon.stderr


@pytest.fixture
def two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A schema folder whose second version is still to be written."""
    folder = tmp_path / "schema"
    folder.mkdir()
    first = connection.SCHEMA / "0001_first.sql"
    (folder / first.name).write_text(first.read_text())
    monkeypatch.setattr(connection, "SCHEMA", folder)
    return folder


async def test_a_migration_keeps_a_copy_of_what_was_there(tmp_path: Path, two_versions: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_store(path)
    await add_events(store, 3)
    await store.close()
    (two_versions / "0002_more.sql").write_text("ALTER TABLE event ADD COLUMN more TEXT NOT NULL DEFAULT 'x';")
    store = await open_store(path)
    assert [row["more"] for row in await store.all("SELECT more FROM event")] == ["x"] * 3
    await store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store.before-2.sqlite")) as copy:
        assert copy.execute("SELECT COUNT(*) FROM event").fetchone() == (3,)
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path, two_versions: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_store(path)
    await add_events(store, 3)
    await store.close()
    (two_versions / "0002_bad.sql").write_text("DELETE FROM event; CREATE TABLE event (x TEXT);")
    with pytest.raises(StoreDamagedError):
        await open_store(path)
    (two_versions / "0002_bad.sql").unlink()
    store = await open_store(path)
    assert len(await events.stored(store, 0)) == 3
    await store.close()


# -- transactions


WRITER = """
import asyncio, sys
from pathlib import Path
from rwkv_daemon import events
from rwkv_daemon.store import open_store

async def main():
    store = await open_store(Path(sys.argv[1]))
    number = 0
    while True:
        async with store.write() as db:
            for part in "abc":
                number += 1
                await events.record(db, "daemon", text=f"{number}{part}")
        print(number, flush=True)

asyncio.run(main())
"""


async def test_a_writer_killed_at_any_time_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    acknowledged = 0
    for commits in (1, 40, 120):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        try:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(commits)]
            writer.kill()
            lines += writer.stdout.readlines()
        finally:
            writer.kill()
            writer.communicate()
        acknowledged += int([line for line in lines if line.endswith(b"\n")][-1])
        store = await open_store(path)
        found = await events.stored(store, 0)
        await store.close()
        assert acknowledged <= len(found) <= acknowledged + 3
        assert len(found) % 3 == 0, "a transaction is there whole or not at all"
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        assert check(path) == "ok"
        acknowledged = len(found)


async def test_a_block_that_raises_or_is_cancelled_leaves_nothing_and_the_store_goes_on(store: Store) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with store.write() as db:
            await events.record(db, "daemon", text="lost")
            raise ZeroDivisionError
    entered = asyncio.Event()

    async def waits_inside() -> None:
        async with store.write() as db:
            await events.record(db, "daemon", text="lost")
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(waits_inside())
    async with asyncio.timeout(DEADLINE_S):
        await entered.wait()
        task.cancel()
        await asyncio.wait([task])
        await add_events(store, 1)
    assert [event.text for event in await events.stored(store, 0)] == ["event 0"]


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from rwkv_daemon import events
from rwkv_daemon.store import StoreError, open_store

async def write(store, size):
    async with store.write() as db:
        await events.record(db, "daemon", text="x" * size)

async def main():
    store = await open_store(Path(sys.argv[1]))
    await write(store, 10)
    wal = Path(sys.argv[1] + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal + 8192, resource.RLIM_INFINITY))
    for _ in range(3):
        try:
            await write(store, 200_000)
        except StoreError as error:
            print("refused:", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await write(store, 10)
    print("stored", len(await events.stored(store, 0)))
    await store.close()

asyncio.run(main())
"""


def test_when_there_is_room_again_the_store_goes_on(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "store.sqlite")],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("refused:") == 3
    assert "stored 2" in ended.stdout
    assert check(tmp_path / "store.sqlite") == "ok"


async def test_readers_see_the_last_commit_while_a_writer_is_busy(store: Store) -> None:
    await add_events(store, 1)
    async with asyncio.timeout(DEADLINE_S):
        async with store.write() as db:
            await events.record(db, "daemon", text="not yet")
            assert len(await events.stored(store, 0)) == 1
            with contextlib.closing(sqlite3.connect(store.path, timeout=0)) as other:
                assert other.execute("SELECT COUNT(*) FROM event").fetchone() == (1,)
        assert len(await events.stored(store, 0)) == 2


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
    assert (counts.done, counts.stages_done, counts.right_sum) == (6, 12, 2.0)
    row = await get_job(store, job)
    assert row is not None
    assert (row.done, row.stages_done, row.right_sum) == (6, 12, 2.0)
    assert [attempt.ingested for attempt in await attempts_of(store, job)] == [1234, 0]
    (first, second) = await stages_of(store, job, 1, 1)
    assert (first["prompt"], first["text"], second["prompt"]) == ("prompt 1.0", "t\x001 é", "prompt 1.1")
    assert len(await graded(store, job, "h")) == 6
    assert not await graded(store, job, "another grade key")
    wrong = await page(store, job, "h", wrong=True, latest=False, after=-1, limit=10)
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
    assert (counts.done, counts.stages_done, counts.right_sum) == (6, 12, 2.0)


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
    with pytest.raises(sqlite3.IntegrityError):
        await put(store, job + 1, records_of())
    assert not await store.all("SELECT * FROM completion")


# -- events


@pytest.fixture
async def node(tmp_path: Path, store: Store) -> Node:
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    return Node(settings, store, Benchmarks(settings.data_dir))


async def test_a_group_of_events_is_published_in_order_once_it_is_stored(node: Node) -> None:
    with node.bus.follow() as queue:
        async with node.change() as change:
            for number in range(3):
                await change.note("daemon", text=f"{number}")
            assert queue.empty(), "not before the commit"
            assert not await events.stored(node.store, 0)
        published = [queue.get_nowait() for _ in range(3)]
    assert [(event.seq, event.text) for event in published] == [(1, "0"), (2, "1"), (3, "2")]
    assert await events.stored(node.store, 0) == published
    assert await events.stored(node.store, 2) == published[2:]
    assert (node.bus.last, node.wake.is_set()) == (3, True)


async def test_a_group_that_fails_is_neither_stored_nor_published(node: Node) -> None:
    with node.bus.follow() as queue:
        with contextlib.suppress(ZeroDivisionError):
            async with node.change() as change:
                await change.note("daemon", text="never")
                raise ZeroDivisionError
        assert queue.empty()
    assert not await events.stored(node.store, 0)


async def test_a_follower_who_comes_in_the_middle_misses_nothing_and_gets_nothing_twice(node: Node) -> None:
    groups, size = 40, 5
    halfway = asyncio.Event()

    async def write() -> None:
        for number in range(groups):
            async with node.change() as change:
                for _ in range(size):
                    await change.note("daemon", session="s" if number % 2 else "t")
            if number == groups // 4:
                halfway.set()

    async def follow(session: str, wanted: int) -> list[int]:
        await halfway.wait()
        found: list[int] = []
        async for event in events.stream(node.bus, node.store, since=3, follow=True, session=session):
            found.append(event.seq)
            if len(found) == wanted:
                break
        return found

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        everything = tasks.create_task(follow("", groups * size - 3))
        own = tasks.create_task(follow("s", groups * size // 2))
        tasks.create_task(write())
    assert everything.result() == list(range(4, groups * size + 1))
    assert own.result() == [n for n in range(1, groups * size + 1) if (n - 1) // size % 2]


async def test_a_follower_who_does_not_read_is_told_to_go(node: Node) -> None:
    with node.bus.follow() as slow, node.bus.follow() as quick:
        for number in range(events.QUEUE + 5):
            node.bus.publish([events.passing("job.progress", text=str(number))])
            assert quick.get_nowait() is not None
        kept = [slow.get_nowait() for _ in range(slow.qsize())]
    assert kept == [None], "half a stream would look whole to whoever comes back with the last number"
    assert not node.bus.followers
