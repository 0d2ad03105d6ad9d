"""Files of every earlier schema, each with a row in each table, opened by this version.

`stores/schema-NUMBER-COMMIT.sql` were made by the code of those commits: every state that a schema file ever had.
"""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.store import StoreDamagedError, dialect, migrations, open_store
from rwkv_daemon.store.queries.engines import get_engine
from rwkv_daemon.store.queries.jobs import attempts_of, get_job
from rwkv_daemon.store.queries.sample_pages import SampleFilter, page
from rwkv_daemon.store.queries.samples import stages_of
from rwkv_daemon.store.queries.training.watches import watched_of
from rwkv_daemon.store.queries.verdicts import spent
from rwkv_daemon.store.table_copy import tables

VERSIONS = [one.version for one in migrations.migrations()]
VERDICT = '{"text": "yes", "usage": {"prompt_tokens": 70, "completion_tokens": 5, "cost": 0.25}}'
RENAMED = {"mtime_ns": "changed_ns"}
"""Columns that have another name by now."""
TEXTS = {"verdict": VERDICT, "parts": "{}", "judge": "{}", "service": "judge", "at": "2026-01-01T00:00:00Z"}


def make(path: Path, version: int) -> dict[str, dict[str, Any]]:
    """A file as that version made it; what is in its tables. The table of migrations is younger than version 2."""
    known = [one for one in migrations.migrations() if one.version <= version]
    rows: dict[str, dict[str, Any]] = {}
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for one in known:
            db.executescript(one.script)
        if version > 2:
            db.executescript(migrations.LEDGER)
            db.executemany(migrations.RECORD, [(one.version, one.sha256, "") for one in known])
        db.execute("PRAGMA foreign_keys = ON")
        for (table,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'migration' "
            "ORDER BY rowid"
        ).fetchall():
            rows[table] = row_of(db, table)
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
    return rows


def row_of(db: sqlite3.Connection, table: str) -> dict[str, Any]:
    """Insert a row with a value in every column, 1 or x where nothing else is needed."""
    columns = db.execute(f"PRAGMA table_info({table})").fetchall()
    plain = {"INTEGER": 1, "REAL": 1.0, "BLOB": b"x"}
    values = {name: TEXTS.get(name, "x") if kind == "TEXT" else plain[kind] for _, name, kind, *_ in columns}
    db.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
    )
    return values


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = tmp_path / "store.sqlite"
    before = make(path, version)
    store = await open_store(path)
    for name, old in before.items():
        rows = await store.all(f"SELECT {', '.join(RENAMED.get(column, column) for column in old)} FROM {name}")
        assert [tuple(row) for row in rows] == [tuple(old.values())], name
    assert {table.name for table in tables()} >= before.keys()
    applied = await store.all(f"{migrations.APPLIED} ORDER BY version")
    assert [row["version"] for row in applied] == VERSIONS
    job, engine = await get_job(store, 1), await get_engine(store, 1)
    assert job is not None
    assert engine is not None
    assert (job.name, engine.name, len(await attempts_of(store, 1))) == ("j1", "e1", 1)
    assert len(await page(store, 1, "x", SampleFilter(), after=-1, limit=5)) == 1
    assert len((await stages_of(store, 1, [(1, 1)]))[1, 1]) == 1
    paid = await spent(store, "judge", "never")
    wanted = (0, 0.0) if version == 1 else (70, 0.25) if version < 9 else (1, 1.0)
    assert (paid.prompt_tokens, paid.cost) == wanted
    await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not db.execute("PRAGMA foreign_key_check").fetchall()
    copies = list(tmp_path.glob("store.before-*.sqlite"))
    assert len(copies) == (version != VERSIONS[-1])
    for copy in copies:
        with contextlib.closing(sqlite3.connect(copy)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (version,)


async def test_a_fresh_store_has_the_same_schema_as_an_upgraded_one(tmp_path: Path) -> None:
    make(tmp_path / "old.sqlite", 1)
    schemas = []
    for name in ("old.sqlite", "new.sqlite"):
        store = await open_store(tmp_path / name)
        rows = await store.all("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        schemas.append([tuple(row) for row in rows])
        await store.close()
    assert schemas[0] == schemas[1]


STORES = Path(__file__).with_name("stores")
MADE = sorted(STORES.glob("schema-*.sql"))
RELEASED = (
    "6096edbac0d65882e4ea79dc5ef9e110ed8594bcf412e886ff0372a3d0f62bb7",
    "27727cb27c73dcde0c04b5857ecb72901451429320ac0ad562f2cfc0668652d9",
    "06cf8d034f23c4940764aadbb2bd9bf13aa58551e9ca88f0663cddab48d81484",
    "8f2ed2f148f0cb88c4689632ef5f845e86c5ca85b2248d7fbd472e87bdca9c44",
    "2d3f2fe7d91ac79fc02a94ecf7794ab47259b2aea44bd85443bfc8fe3f9566f0",
    "32e9d91a99381d400301efcefcbfe84de9d31cd631a92a3183c3898afb1f8818",
    "7b233e22104fe4e3d517fdf75a2301f6a5b6e0a4fb5bd4ab00c82e8b5dadf26e",
    "4332765c1775a543a38a45e3c76345cb26d77d939bb0de0fdbed44bbbaaaf8ff",
    "71dc539d3eac75ef93cdc6a8004b7225c0d36bbed39badac1c8507f6f7dece53",
    "c982fe0d07d270c3bd5a0b7fbc695c0f90885199e90e7700d05f8fa72cf2b5a5",
    "2fb63b96e0d62cfe1be4bd5846d54fd462c5bcc9c7133857f165745e540c9adb",
    "c1be4a7a57eb412b03ab92b789aec04fa2d56289dc4b778885c6d3672be0fefe",
    "8774ea8923734c0d1930cb8b79f262692b5f9d68d99f0874900fefe66bc750db",
    "7c043b45b816eb6b496cdd6d3afb9a55743df191cf00d7e8502ee956da738ddd",
    "bb912330e6a1eca547fdb352ba0db9f4ad9c36ba703779b1469db0bf4c306365",
    "8a7c8fc46cf7cdbe82ce35c3be7ab4b71b39dce9b3bbeb4ae1d42630a3fbaa7f",
    "f0fe94a2a18ebd1b119fe82ca0360002c6acd5aaae5f3595c626b38320f421c0",
    "f2983c8fa94c3bbecd3af2296bb2ced321cd67e25ab975d0b211079b584ea718",
    "f71897b572a11a0558c526846f27838994c934ab2574e0e5d699773e2a6b1cc1",
    "d4e389b3a5dd3a3bd4a17c088a780f3c1d67695f44f7b1606c0ffe9094da04c6",
    "4e5e5ef2e90d2b4feb7212ee0cd21de549dbebe701267285572a648c15a2413b",
    "1fb72a94f71f23cb80761c01e57025513eeafa66e966d5badd1ba26488388ad6",
    "a85094a38f3cd66a0e8b5aea234dc54c19297caae2c156074c6497d51a03f788",
    "91ebed66741fcd56d53733c4427db29f722046dd674d63944383352ab75e1138",
    "ef5a895a0cb0d63bbb3f5d06c8bbf0abfa7f5e71f07eb859e98f5e0e8cb23e9a",
    "77c604825bb88242ff9a4005bc4a5c1a0c96ea7693d8ef9c929a775d4327b632",
)
"""Checksums of the statements of each schema file, in order. Add those of a new file; never change one."""


def test_a_schema_file_that_was_released_is_never_changed() -> None:
    for one in migrations.migrations():
        pinned = RELEASED[one.version - 1] if one.version <= len(RELEASED) else "none"
        assert one.sha256 == pinned, (
            f"schema {one.version} is not what was released, and stores that have it would be refused: put the change "
            f"into a file of the next number. If the file is new, add its checksum to RELEASED: {one.sha256}"
        )


def rows_of(db: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    db.row_factory = sqlite3.Row
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()
    return {name: [dict(row) for row in db.execute(f"SELECT * FROM {name}")] for (name,) in names}


@pytest.mark.parametrize("dump", MADE, ids=lambda path: path.stem)
async def test_a_store_that_an_earlier_build_made_opens(tmp_path: Path, dump: Path) -> None:
    path = tmp_path / "store.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(dump.read_text(encoding="utf-8"))
        before = rows_of(db)
    for _ in range(2):  # the second time nothing is left to be done
        store = await open_store(path)
        assert await get_job(store, 1) is not None
        await spent(store, "judge", "never")
        await store.close()
    make(tmp_path / "fresh.sqlite", VERSIONS[-1])
    with (
        contextlib.closing(sqlite3.connect(path)) as db,
        contextlib.closing(sqlite3.connect(tmp_path / "fresh.sqlite")) as fresh,
    ):
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        shape = "SELECT m.name, i.name FROM sqlite_master m JOIN pragma_table_info(m.name) i ORDER BY 1, 2"
        assert db.execute(shape).fetchall() == fresh.execute(shape).fetchall(), "columns of tables and indexes"
        after = rows_of(db)
        assert [row["sha256"] for row in after["migration"]] == list(RELEASED)
    for table in before.keys() - {"migration"}:
        known = [{name: row[RENAMED.get(name, name)] for name in before[table][0]} for row in after[table]]
        assert known == before[table], table


async def test_a_database_that_an_earlier_build_made_opens(postgres_server: Any) -> None:
    asyncpg = pytest.importorskip("asyncpg", reason="needs asyncpg: not installed")
    earlier = migrations.Migration(9, (STORES / "0009_scale.6331df2.sql").read_text(encoding="utf-8"))
    url = postgres_server.database()
    connection = await asyncpg.connect(url)
    for sql in dialect.schema(migrations.LEDGER):
        await connection.execute(sql)
    for one in [*migrations.migrations()[:8], earlier]:
        for sql in dialect.schema(one.script):
            await connection.execute(sql)
        await connection.execute(dialect.query(migrations.RECORD), one.version, one.sha256, "")
    await connection.close()
    store = await open_store(url)
    rows = await store.all(f"{migrations.APPLIED} ORDER BY version")
    assert [row["sha256"] for row in rows] == list(RELEASED)
    indexes = {row["indexname"] for row in await store.all("SELECT indexname FROM pg_indexes")}
    assert "finding_by_job" in indexes
    assert "score_by_age" not in indexes
    await store.close()


async def test_another_change_of_a_schema_file_is_still_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    make(path, 9)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE migration SET sha256 = 'x' WHERE version = 9")
        db.commit()
    with pytest.raises(StoreDamagedError, match="another build of rwkvctl, whose schema 9"):
        await open_store(path)


async def test_a_checkpoint_that_was_measured_before_there_was_feedback_is_no_news(tmp_path: Path) -> None:
    make(tmp_path / "store.sqlite", 25)
    store = await open_store(tmp_path / "store.sqlite")
    [row] = await watched_of(store, 1)
    assert row.feedback == row.finished == "x"
    await store.close()
