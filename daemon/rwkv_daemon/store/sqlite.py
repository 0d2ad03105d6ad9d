"""The store in one SQLite file: one writer, whole transactions, readers that never wait for it.

WAL with synchronous=FULL: a commit that was acknowledged survives a power loss. The writer connection is used under a
lock, one transaction at a time. Readers are connections of their own, some for each lane (`read_lanes`): a long query
delays only its own connection, and is ended when its time is over or nobody waits for it any more.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import aiosqlite

from rwkv_daemon.store.interface import ConflictError, StoreError, StoreRow, Transaction
from rwkv_daemon.store.read_lanes import AT_ONCE, LONGEST_S, OURSELVES, READER, LateError, ReadLane, Turns, reading

BUSY_TIMEOUT_MS: Final = 5000
STUCK_S: Final = 2.0
"""A write that takes so long to begin or to commit waits for a disk that hangs, or for another program's lock."""
INTERRUPT_EVERY_S: Final = 0.02


@contextlib.contextmanager
def store_errors() -> Iterator[None]:
    """Raise SQLite errors within the block as StoreError, or ConflictError where a constraint was violated."""
    try:
        yield
    except sqlite3.Error as error:
        kind = ConflictError if isinstance(error, sqlite3.IntegrityError) else StoreError
        raise kind(str(error)) from error


@dataclass(frozen=True, slots=True)
class SqliteTransaction:
    """`Transaction` of a SQLite store, on its writing connection."""

    connection: aiosqlite.Connection

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with store_errors():
            return (await self.connection.execute(sql, parameters)).rowcount

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        with store_errors():
            return cast(list[StoreRow], list(await self.connection.execute_fetchall(sql, parameters)))

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with store_errors():
            await self.connection.executemany(sql, rows)

    async def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        await self.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", rows)

    async def count_on(self, table: str, column: str) -> None:
        """Do nothing: AUTOINCREMENT never reuses a number."""


@dataclass(slots=True)
class SqliteStore:
    """`Store` in a SQLite file, with one connection for writing and others for reading."""

    path: Path
    writer: aiosqlite.Connection
    readers: Sequence[aiosqlite.Connection]
    lanes: Mapping[ReadLane, Turns[aiosqlite.Connection]]
    checked: bool
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waits_since: float = 0.0
    """Since when the writer waits for the file's lock or for a commit (monotonic); 0 if it does not."""
    ending: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks that interrupt queries."""

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self.lock:
            try:
                with store_errors(), self._waiting():
                    await self.writer.execute("BEGIN IMMEDIATE")
                with reading(OURSELVES):
                    yield SqliteTransaction(self.writer)
                with store_errors(), self._waiting():
                    await self.writer.commit()
            except BaseException:
                with store_errors():
                    await self.writer.rollback()  # does nothing if it never began, or SQLite has rolled it back itself
                raise

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self.waits_since = time.monotonic()
        try:
            yield
        finally:
            self.waits_since = 0.0

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        lane = READER.get().lane
        try:
            async with asyncio.timeout(LONGEST_S[lane]):
                return await self._read(sql, parameters)
        except TimeoutError:
            raise LateError(f"a query took more than {LONGEST_S[lane]:g} s") from None

    async def _read(self, sql: str, parameters: Sequence[Any]) -> list[StoreRow]:
        reader = READER.get()
        turns = self.lanes[reader.lane]
        connection = await turns.take(reader.who)
        asking = asyncio.ensure_future(connection.execute_fetchall(sql, parameters))
        asking.add_done_callback(lambda _: turns.give(connection))  # not before: its thread is busy until then
        try:
            with store_errors():
                return cast(list[StoreRow], list(await asyncio.shield(asking)))
        except asyncio.CancelledError:
            ending = asyncio.ensure_future(end(connection, asking))
            self.ending.add(ending)
            ending.add_done_callback(self.ending.discard)
            raise

    async def damage(self) -> str:
        with store_errors():
            async with aiosqlite.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True) as connection:
                try:
                    return await problem_of(connection)
                finally:
                    await connection.interrupt()  # the caller may have been cancelled: its thread must not go on

    async def probe(self) -> None:
        if self.waits_since and time.monotonic() - self.waits_since > STUCK_S:
            raise StoreError(f"{self.path}: a write does not end: the disk hangs, or another program locks the file")
        with store_errors():
            async with aiosqlite.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True) as connection:
                await connection.execute_fetchall("SELECT 1 FROM sqlite_master LIMIT 1")

    def cut(self) -> None:
        """Do nothing: a thread that waits for a disk cannot be cancelled."""

    async def close(self) -> None:
        for reader in self.readers:
            await end(reader, asyncio.ensure_future(reader.close()))
        await self.writer.close()  # the last connection that closes checkpoints the write-ahead log


async def connect(path: Path, undo: contextlib.AsyncExitStack) -> aiosqlite.Connection:
    """Open a connection with our settings, closed by `undo`: its thread would keep a process alive that fails to
    start."""
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


async def problem_of(connection: aiosqlite.Connection) -> str:
    """Return the first problem that SQLite finds in the file; empty if it is whole. Raises sqlite3.Error."""
    said = str(next(iter(await connection.execute_fetchall("PRAGMA quick_check(1)")))[0])
    return "" if said == "ok" else said


async def open_readers(path: Path, undo: contextlib.AsyncExitStack) -> dict[ReadLane, list[aiosqlite.Connection]]:
    """Open read-only connections, some for each lane."""
    lanes: dict[ReadLane, list[aiosqlite.Connection]] = {lane: [] for lane in ReadLane}
    for lane, readers in lanes.items():
        for _ in range(AT_ONCE[lane]):
            readers.append(await connect(path, undo))
            await readers[-1].execute("PRAGMA query_only = ON")
    return lanes


async def end(connection: aiosqlite.Connection, what: "asyncio.Future[Any]") -> None:
    """Interrupt a connection until its query ends, which may not have begun yet."""
    while not what.done():
        with contextlib.suppress(ValueError, sqlite3.Error):  # the connection is closed by now
            await connection.interrupt()
        await asyncio.wait({what}, timeout=INTERRUPT_EVERY_S)
    if not what.cancelled():
        what.exception()
