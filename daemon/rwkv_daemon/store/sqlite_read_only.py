"""A SQLite file that cannot be written now, opened for reading, so that a daemon that starts on a full disk knows its
jobs.

SQLite's write-ahead log needs an index that all who open the file share, and on a full disk there is no room for that.
A process that locks the file exclusively keeps the index in memory.
"""

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aiosqlite

from rwkv_daemon.store import migrations
from rwkv_daemon.store.interface import StoreError, StoreRow, Transaction
from rwkv_daemon.store.sqlite import store_errors

WAYS: Final = (("rw", "EXCLUSIVE"), ("ro", "NORMAL"), ("ro&immutable=1", "NORMAL"))
"""For a full disk; for a read-only file system, with the log and its index there; for the same with neither."""


@dataclass(frozen=True, slots=True)
class ReadingStore:
    """A `Store` that refuses every change, with the reason."""

    path: Path
    connection: aiosqlite.Connection
    why: str

    def write(self) -> contextlib.AbstractAsyncContextManager[Transaction]:
        raise StoreError(self.why)

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        try:
            with store_errors():
                return cast(list[StoreRow], list(await self.connection.execute_fetchall(sql, parameters)))
        except ValueError as error:  # closed, as there is room again and the store was opened for writing
            raise StoreError(str(error)) from error

    @property
    def checked(self) -> bool:
        return True

    async def damage(self) -> str:
        return ""

    async def probe(self) -> None:
        await self.all("SELECT 1 FROM sqlite_master LIMIT 1")

    def cut(self) -> None:
        """Do nothing: a thread that waits for a disk cannot be cancelled."""

    async def close(self) -> None:
        await self.connection.close()


async def open_reading(path: Path, why: str) -> ReadingStore | None:
    """Open a file whose schema is this version's; None if that is not possible either."""
    for mode, locking in WAYS:
        if "immutable" in mode and log_of(path):
            continue  # without its log it would be an older state of itself
        async with contextlib.AsyncExitStack() as undo:
            with contextlib.suppress(StoreError, sqlite3.Error):
                connection = await aiosqlite.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
                undo.push_async_callback(connection.close)
                connection.row_factory = sqlite3.Row
                await connection.execute(f"PRAGMA locking_mode = {locking}")
                await connection.execute("PRAGMA query_only = ON")
                store = ReadingStore(path, connection, why)
                applied = {row["version"]: row["sha256"] for row in await store.all(migrations.APPLIED)}
                if not migrations.pending(migrations.migrations(), applied, str(path)):
                    undo.pop_all()
                    return store
    return None


def log_of(path: Path) -> int:
    """Return the size of the write-ahead log in bytes; 0 if there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return 0
