"""Files of every earlier schema, each with a row in each table, opened by this version."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.store import migrations, open_store
from rwkv_daemon.store.browsing import Wanted, page
from rwkv_daemon.store.copying import tables
from rwkv_daemon.store.engines import get_engine
from rwkv_daemon.store.jobs import attempts_of, get_job
from rwkv_daemon.store.judging import spent
from rwkv_daemon.store.samples import stages_of

VERSIONS = [one.version for one in migrations.migrations()]
VERDICT = '{"text": "yes", "usage": {"prompt_tokens": 70, "completion_tokens": 5, "cost": 0.25}}'
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
        rows = await store.all(f"SELECT {', '.join(old)} FROM {name}")
        assert [tuple(row) for row in rows] == [tuple(old.values())], name
    assert {table.name for table in tables()} >= before.keys()
    applied = await store.all(f"{migrations.APPLIED} ORDER BY version")
    assert [row["version"] for row in applied] == VERSIONS
    job, engine = await get_job(store, 1), await get_engine(store, 1)
    assert job is not None
    assert engine is not None
    assert (job.name, engine.name, len(await attempts_of(store, 1))) == ("j1", "e1", 1)
    assert len(await page(store, 1, "x", Wanted(), after=-1, limit=5)) == 1
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
