"""Reading the store in a process beside the daemon, which goes on writing it."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite

from rwkv_daemon.store.interface import StoreDamagedError, StoreReader
from rwkv_daemon.store.sqlite_read_only import ReadingStore


@contextlib.asynccontextmanager
async def read_beside(where: Path | str, name: str) -> AsyncIterator[StoreReader]:
    """Open the store for reading: a SQLite file (a path), or a PostgreSQL database (a URL), to which `name` is told.
    Raises StoreDamagedError, StoreError."""
    if isinstance(where, Path):
        async with contextlib.AsyncExitStack() as opened:
            try:
                uri = f"{where.absolute().as_uri()}?mode=ro"
                connection = await opened.enter_async_context(aiosqlite.connect(uri, uri=True))
            except sqlite3.Error as error:
                raise StoreDamagedError(f"{where} cannot be read: {error}") from error
            connection.row_factory = sqlite3.Row
            yield ReadingStore(where, connection, "it is only read here")
        return
    from rwkv_daemon.store.postgres import reading_connection  # loaded only if it is used, as its driver is

    async with reading_connection(where, name) as server:
        yield server
