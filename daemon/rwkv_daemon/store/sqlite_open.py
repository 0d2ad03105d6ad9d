"""Opening the SQLite file: making it, checking it, migrating it to the newest schema, or refusing it with a
sentence."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiosqlite

from rwkv_daemon.store import migrations
from rwkv_daemon.store.interface import StoreAwayError, StoreDamagedError
from rwkv_daemon.store.local_disk import check_local
from rwkv_daemon.store.migrations import Migration, SchemaRepair, corrections
from rwkv_daemon.store.read_lanes import Turns
from rwkv_daemon.store.sqlite import SqliteStore, connect, open_readers, problem_of
from rwkv_daemon.store.wall_time import now

CHECK_S: Final = 1.0
"""How long a start may check for damage: about 0.3 GiB; the rest is checked while the daemon runs."""
DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
AWAY: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY}
)
"""Errors that do not mean damage: no room, a read-only file system, another program's lock."""


async def open_sqlite(path: Path, schema: Path = migrations.SCHEMA) -> SqliteStore:
    """Open the store, creating or migrating it. Raises StoreDamagedError if the file is not a usable store."""
    path.parent.mkdir(parents=True, exist_ok=True)
    check_local(path)
    async with contextlib.AsyncExitStack() as undo:
        try:
            checked = await check(path)
            writer = await connect(path, undo)
            await migrate(writer, path, migrations.migrations(schema))
            readers = await open_readers(path, undo)
        except sqlite3.Error as error:
            if primary(error) in AWAY:
                raise StoreAwayError(unusable(path, error), f"{path}: {error}") from error
            raise StoreDamagedError(unusable(path, error)) from error
        undo.pop_all()
        every = [reader for lane in readers.values() for reader in lane]
        return SqliteStore(path, writer, every, {lane: Turns(own) for lane, own in readers.items()}, checked)


def primary(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def unusable(path: Path, error: sqlite3.Error) -> str:
    """Return what happened to the file, and what to do."""
    said = f"{path} cannot be used as a store ({error}). Nothing was changed."
    if primary(error) not in DAMAGED:
        return f"{said} Put that right and start again."
    return (
        f"{said} `rwkvctl rebuild` sets it aside and builds a new one from {path.parent / 'runs'}; "
        "`rwkvctl restore FILE` puts a backup in its place."
    )


async def check(path: Path, most_s: float = CHECK_S) -> bool:
    """Check the file for a limited time; returns whether all of it was checked. Raises sqlite3.DatabaseError."""
    async with aiosqlite.connect(path) as connection, asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(said_of(connection))
        in_time, _ = await asyncio.wait({looking}, timeout=most_s)
        if not in_time:
            await connection.interrupt()  # the result is then about a part of the file
    if in_time and (problem := looking.result()):
        raise problem
    return bool(in_time)


async def said_of(connection: aiosqlite.Connection) -> sqlite3.DatabaseError | None:
    """Return the problem as an error, or None."""
    try:
        problem = await problem_of(connection)
    except sqlite3.DatabaseError as error:
        return error
    return sqlite3.DatabaseError(problem) if problem else None


async def migrate(connection: aiosqlite.Connection, path: Path, known: list[Migration]) -> None:
    """Migrate the file to the newest schema; before changing one that holds data, keep a copy beside it."""
    current = int(next(iter(await connection.execute_fetchall("PRAGMA user_version")))[0])
    applied = await applied_to(connection, current, known)
    missing = migrations.pending(known, applied, str(path))
    if missing and applied:
        copy = path.with_suffix(f".before-{missing[-1].version}.sqlite")
        copy.unlink(missing_ok=True)  # left over from an interrupted migration
        await connection.execute("VACUUM INTO ?", (str(copy),))
    await repair(connection, known, applied)
    for one in missing:
        recorded = f"INSERT INTO migration VALUES ({one.version}, '{one.sha256}', '{now()}');"
        version = f"PRAGMA user_version = {max(one.version, current)};"
        await connection.executescript(f"BEGIN IMMEDIATE;\n{one.script}\n{recorded}\n{version}\nCOMMIT;")


async def repair(connection: aiosqlite.Connection, known: list[Migration], applied: Mapping[int, str]) -> None:
    """Add the indexes and columns that an earlier build of its schema lacked."""
    scripts = [one.script for one in migrations.REPAIRS if one.version in applied and await lacks(connection, one)]
    scripts += [f"UPDATE migration SET sha256 = '{sha}' WHERE version = {v};" for sha, v in corrections(known, applied)]
    if scripts:
        await connection.executescript("\n".join(["BEGIN IMMEDIATE;", *scripts, "COMMIT;"]))


async def lacks(connection: aiosqlite.Connection, wanted: SchemaRepair) -> bool:
    """Return whether the file lacks the index or column that a repair adds."""
    if wanted.index:
        asked = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?"
        return not await connection.execute_fetchall(asked, (wanted.index,))
    asked = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?"
    return not await connection.execute_fetchall(asked, (wanted.table, wanted.column))


async def applied_to(connection: aiosqlite.Connection, current: int, known: list[Migration]) -> dict[int, str]:
    """Return version and checksum of the migrations that the file has. Before there was a table of them, the file's
    `user_version` was used; it is still set, for an older rwkvctl that opens the file."""
    if current > max(one.version for one in known):
        return {current: ""}
    names = await connection.execute_fetchall("SELECT name FROM sqlite_master WHERE name = 'migration'")
    if names:
        return {row["version"]: row["sha256"] for row in await connection.execute_fetchall(migrations.APPLIED)}
    before = {one.version: one.sha256 for one in known if one.version <= current}
    await connection.executescript(f"BEGIN IMMEDIATE;\n{migrations.LEDGER}")
    await connection.executemany(migrations.RECORD, [(version, sha256, now()) for version, sha256 in before.items()])
    await connection.commit()
    return before
