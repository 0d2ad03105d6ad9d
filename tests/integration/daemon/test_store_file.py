"""The store in a SQLite file: opening, refusing, migrating, dying in the middle, a full disk."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import LIMIT_S

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.changes import event_bus
from rwkv_daemon.node import Node
from rwkv_daemon.store import Store, StoreDamagedError, migrations, open_store, sqlite_open
from rwkv_daemon.store.sqlite import SqliteStore
from rwkv_daemon.store.sqlite_open import open_sqlite
from rwkv_daemon.upkeep import store_maintenance
from rwkvctl.settings import config


def check(path: Path) -> str:
    """What SQLite itself says of a file that nobody has open."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


async def add_events(store: Store, count: int, session: str = "") -> None:
    async with store.write() as db:
        for number in range(count):
            await event_bus.record(db, "daemon", session=session, text=f"event {number}")


# -- opening


async def test_an_empty_folder_becomes_a_store_of_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "home" / "store.sqlite"
    for _ in range(2):  # made, then opened again
        store = await open_store(path)
        newest = migrations.migrations()[-1].version
        assert (await store.one("PRAGMA user_version"))[0] == newest  # type: ignore[index]
        assert (await store.one("PRAGMA journal_mode"))[0] == "wal"  # type: ignore[index]
        assert isinstance(store, SqliteStore)
        pragmas = [await store.writer.execute_fetchall(f"PRAGMA {name}") for name in ("synchronous", "foreign_keys")]
        assert [tuple(row) for rows in pragmas for row in rows] == [(2,), (1,)]
        names = {row["name"] for row in await store.all("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"job", "attempt", "completion", "sample", "grade", "score", "event"} <= names
        await store.close()
    assert check(path) == "ok"
    assert not path.with_name("store.sqlite-wal").exists(), "closed tidily"


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


async def test_what_a_start_has_no_time_to_see_is_found_while_the_daemon_runs(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_store(path)
    await add_events(store, 3000)
    await store.close()
    assert await sqlite_open.check(path, 60.0)
    assert not await sqlite_open.check(path, 0.0), "it says that it has not seen all of it"
    store = await open_store(path)
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    node = Node.of(settings, store, NodeBenchmarks(settings.data_dir))
    await store_maintenance.look_for_damage(node.records)
    assert not node.records.notes
    content = path.read_bytes()
    half = len(content) // 8192 * 4096
    path.write_bytes(content[:half] + b"\xff" * 4096 + content[half + 4096 :])
    await store_maintenance.look_for_damage(node.records)
    assert "`rwkvctl rebuild`" in node.records.notes[0]
    await store.close()


def test_a_daemon_with_a_damaged_store_says_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database\n" * 500)
    daemon = subprocess.run(
        [sys.executable, "-m", "rwkv_daemon", "--home", str(tmp_path), "--socket", str(tmp_path / "d.sock")],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert daemon.returncode == 1
    assert "cannot be used as a store" in daemon.stderr
    assert "Traceback" not in daemon.stderr


@pytest.fixture
def two_versions(tmp_path: Path) -> Path:
    """A schema folder whose second version is still to be written."""
    folder = tmp_path / "schema"
    folder.mkdir()
    first = migrations.SCHEMA / "0001_first.sql"
    (folder / first.name).write_text(first.read_text())
    return folder


async def test_a_migration_keeps_a_copy_of_what_was_there(tmp_path: Path, two_versions: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_sqlite(path, two_versions)
    await add_events(store, 3)
    await store.close()
    (two_versions / "0002_more.sql").write_text("ALTER TABLE event ADD COLUMN more TEXT NOT NULL DEFAULT 'x';")
    (tmp_path / "store.before-2.sqlite").write_bytes(b"of a migration that was cut off")
    store = await open_sqlite(path, two_versions)
    assert [row["more"] for row in await store.all("SELECT more FROM event")] == ["x"] * 3
    assert (await store.one("PRAGMA user_version"))[0] == 2  # type: ignore[index]
    await store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store.before-2.sqlite")) as copy:
        assert copy.execute("SELECT COUNT(*) FROM event").fetchone() == (3,)
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)


async def test_a_schema_that_was_changed_after_it_was_applied_is_refused(tmp_path: Path, two_versions: Path) -> None:
    path = tmp_path / "store.sqlite"
    await (await open_sqlite(path, two_versions)).close()
    first = two_versions / "0001_first.sql"
    content = first.read_text()
    first.write_text(content.replace("-- Schema version 1.", "-- Other words,\n--  other lines."))
    await (await open_sqlite(path, two_versions)).close()
    first.write_text(content.replace("created TEXT NOT NULL", "created TEXT"))
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match="another build of rwkvctl, whose schema 1 is not this one's"):
        await open_sqlite(path, two_versions)
    assert path.read_bytes() == before


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path, two_versions: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_sqlite(path, two_versions)
    await add_events(store, 3)
    await store.close()
    (two_versions / "0002_bad.sql").write_text("DELETE FROM event; CREATE TABLE event (x TEXT);")
    with pytest.raises(StoreDamagedError):
        await open_sqlite(path, two_versions)
    (two_versions / "0002_bad.sql").unlink()
    store = await open_sqlite(path, two_versions)
    assert len(await event_bus.stored(store, 0)) == 3
    await store.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from rwkv_daemon.changes import event_bus
from rwkv_daemon.store import open_store

async def main():
    store = await open_store(Path(sys.argv[1]))
    number = 0
    while True:
        async with store.write() as db:
            for part in "abc":
                number += 1
                await event_bus.record(db, "daemon", text=f"{number}{part}")
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
        found = await event_bus.stored(store, 0)
        await store.close()
        assert acknowledged <= len(found) <= acknowledged + 3
        assert len(found) % 3 == 0, "a transaction is there whole or not at all"
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        assert check(path) == "ok"
        acknowledged = len(found)


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from rwkv_daemon.changes import event_bus
from rwkv_daemon.store import StoreError, open_store

async def write(store, size):
    async with store.write() as db:
        await event_bus.record(db, "daemon", text="x" * size)

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
    print("stored", len(await event_bus.stored(store, 0)))
    await store.close()

asyncio.run(main())
"""


def test_when_there_is_room_again_the_store_goes_on(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "store.sqlite")],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("refused:") == 3
    assert "stored 2" in ended.stdout
    assert check(tmp_path / "store.sqlite") == "ok"
