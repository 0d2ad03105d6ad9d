"""Opening, migrating and using the SQLite file: one writer, whole transactions, group commit by the caller.

WAL with synchronous=FULL: a commit that was acknowledged survives a power loss. The writer connection is used under a
lock, one transaction at a time; readers share a second, read-only connection and never wait for it.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiosqlite

from rwkvctl.protocol.errors import RwkvctlError

SCHEMA: Final = Path(__file__).with_name("schema")
BUSY_TIMEOUT_MS: Final = 5000


StoreError = sqlite3.Error
"""What a failed commit raises: the disk is full, or the file is damaged. Workers are never touched because of it."""


class StoreDamagedError(RwkvctlError):
    """The store cannot be used; the sentence says what to do. Nothing was changed."""


@dataclass(slots=True)
class Store:
    """The open store. `write` gives a transaction; `all` and `one` read."""

    path: Path
    writer: aiosqlite.Connection
    reader: aiosqlite.Connection
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[aiosqlite.Connection]:
        """A transaction: committed at the end of the block, rolled back if it raises."""
        async with self.lock:
            await self.writer.execute("BEGIN IMMEDIATE")
            try:
                yield self.writer
            except BaseException:
                await self.writer.rollback()
                raise
            await self.writer.commit()

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Every row of a query."""
        return list(await self.reader.execute_fetchall(sql, parameters))

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        rows = await self.all(sql, parameters)
        return rows[0] if rows else None

    async def close(self) -> None:
        """Close both connections; the last one checkpoints the write-ahead log."""
        await self.reader.close()
        await self.writer.close()


async def open_store(path: Path) -> Store:
    """Open the store, creating or migrating it. Raises StoreDamagedError if the file is not a usable store."""
    path.parent.mkdir(parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as undo:
        try:
            writer = await connect(path, undo)
            await migrate(writer, path)
            reader = await connect(path, undo)
            await reader.execute("PRAGMA query_only = ON")
        except sqlite3.DatabaseError as error:
            raise StoreDamagedError(
                f"{path} cannot be used as a store ({error}). Nothing was changed; move it aside to start an empty one "
                f"(samples stay in {path.parent / 'runs'})."
            ) from error
        undo.pop_all()
        return Store(path, writer, reader)


async def connect(path: Path, undo: contextlib.AsyncExitStack) -> aiosqlite.Connection:
    """A connection with our settings, closed by `undo`: its thread would keep a process alive that gives up."""
    connection = await aiosqlite.connect(path, isolation_level=None)
    undo.push_async_callback(connection.close)
    connection.row_factory = sqlite3.Row
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
    ):
        await connection.execute(f"PRAGMA {pragma}")
    return connection


def migrations() -> list[tuple[int, Path]]:
    """(version, file) of every migration, in order."""
    return sorted((int(path.name.partition("_")[0]), path) for path in SCHEMA.glob("*.sql"))


async def migrate(connection: aiosqlite.Connection, path: Path) -> None:
    """Bring the file to the newest schema; before changing one that holds data, keep a copy beside it."""
    row = next(iter(await connection.execute_fetchall("PRAGMA user_version")))
    current, newest = int(row[0]), migrations()[-1][0]
    if current > newest:
        raise StoreDamagedError(
            f"{path} was written by a newer rwkvctl (schema {current}, this one knows {newest}). Upgrade rwkvctl."
        )
    if 0 < current < newest:
        await connection.execute("VACUUM INTO ?", (str(path.with_suffix(f".before-{newest}.sqlite")),))
    for version, file in migrations():
        if version > current:
            script = f"BEGIN IMMEDIATE;\n{file.read_text(encoding='utf-8')}\nPRAGMA user_version = {version};\nCOMMIT;"
            await connection.executescript(script)
