"""The store in a PostgreSQL database: one connection writes, a small pool reads for each lane (`read_lanes`).

One store serves one daemon: the writing connection holds an advisory lock, so a second daemon is refused. When the
server goes away every query fails with a StoreError; the first one after it is back connects anew.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from rwkv_daemon.rules import stored_text
from rwkv_daemon.store import dialect, migrations
from rwkv_daemon.store.interface import (
    ConflictError,
    StoreAwayError,
    StoreDamagedError,
    StoreError,
    StoreRow,
    Transaction,
)
from rwkv_daemon.store.read_lanes import (
    AT_ONCE,
    LONGEST_S,
    OURSELVES,
    READER,
    LaneReader,
    LateError,
    ReadLane,
    Turns,
    reading,
)
from rwkv_daemon.store.wall_time import now

CONNECT_TIMEOUT_S: Final = 5.0
COMMAND_TIMEOUT_S: Final = 60.0
LOCK: Final = 0x72776B76  # "rwkv": locks of other programs in the database have other numbers
HOLDER: Final = (
    "SELECT a.pid, a.application_name AS name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    f"WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = {LOCK} "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
THERE: Final = (
    "SELECT 1 FROM pg_indexes WHERE schemaname = current_schema() AND tablename = $1 AND indexname = $2 UNION ALL "
    "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 "
    "AND column_name = $2"
)
FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
AWAY: Final = (
    OSError,  # a TimeoutError is one
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ConnectionDoesNotExistError,
)
"""Errors that pass by themselves: there is no server, it starts or stops, or it has no room."""


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A database and the daemon's name there, which is shown in pg_stat_activity and tells daemons apart."""

    dsn: str = field(repr=False)
    name: str

    @property
    def place(self) -> str:
        """Return the database in words, never with the password."""
        parts = urlsplit(self.dsn)
        host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "this machine")
        return f"the PostgreSQL database {parts.path.strip('/') or '(default)'} at {host}"

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of the driver within the block as StoreError, or ConflictError where a constraint was
        violated."""
        try:
            yield
        except FAILURES as error:
            said = " ".join(str(error).split()) or "no answer in time"
            kind = ConflictError if isinstance(error, asyncpg.IntegrityConstraintViolationError) else StoreError
            raise kind(f"{self.place}: {said}") from error

    async def connect(self) -> Any:
        """Open a connection prepared for the store's types. Raises StoreError if the URL is invalid."""
        try:
            connection = await asyncpg.connect(
                self.dsn, timeout=CONNECT_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S,
                server_settings={"application_name": self.name},
            )  # fmt: skip
        except ValueError:  # its message repeats a part of the URL
            raise StoreError(f"{self.place}: its URL cannot be understood") from None
        await prepare(connection)
        return connection


async def prepare(connection: Any) -> None:
    """Make sums of integers integers, and let a text hold NUL."""
    await connection.set_type_codec(
        "numeric", schema="pg_catalog", format="text", encoder=str, decoder=lambda text: number_of(Decimal(text))
    )
    await connection.set_type_codec(
        "text", schema="pg_catalog", format="binary", encoder=lambda text: stored_text.text_in(text).encode(),
        decoder=lambda data: stored_text.text_out(bytes(data).decode()),
    )  # fmt: skip


def number_of(value: Decimal) -> int | float:
    """Return a number of the server as int or float."""
    return int(value) if value == value.to_integral_value() else float(value)


@dataclass(frozen=True, slots=True)
class PostgresTransaction:
    """`Transaction` of a PostgreSQL store, on its writing connection."""

    connection: Any
    server: PostgresDatabase

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with self.server.errors():
            status: str = await self.connection.execute(dialect.query(sql), *parameters)
        changed = status.rpartition(" ")[2]
        return int(changed) if changed.isdecimal() else 0

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        with self.server.errors():
            return cast(list[StoreRow], await self.connection.fetch(dialect.query(sql), *parameters))

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with self.server.errors():
            await self.connection.executemany(dialect.query(sql), rows)

    async def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        with self.server.errors():
            await self.connection.copy_records_to_table(table, columns=list(columns), records=rows)

    async def count_on(self, table: str, column: str) -> None:
        highest = f"(SELECT COALESCE(MAX({column}), 0) + 1 FROM {table})"
        await self.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {highest}, false)")


@dataclass(slots=True)
class PostgresStore:
    """`Store` in a PostgreSQL database, with one connection for writing and pools for reading."""

    server: PostgresDatabase
    writer: Any
    pools: Mapping[ReadLane, Any]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    prober: Any = None
    lanes: Mapping[ReadLane, Turns[None]] = field(
        default_factory=lambda: {lane: Turns([None] * count) for lane, count in AT_ONCE.items()}
    )

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self.lock:
            with self.server.errors():
                await self._reconnect()
            try:
                await self._say("BEGIN")
                with reading(OURSELVES):
                    yield PostgresTransaction(self.writer, self.server)
                await self._say("COMMIT")
            except BaseException:
                await self._give_up()
                raise

    async def _reconnect(self) -> None:
        """Open a new writing connection if the last one is lost."""
        if self.writer.is_closed():
            writer = await self.server.connect()
            try:
                await take_lock(writer, self.server)
            except BaseException:
                writer.terminate()
                raise
            self.writer = writer

    async def _say(self, word: str) -> None:
        """Begin or commit. (The driver's own transactions do not survive the cancellation of a task while one begins.)
        A server that answers COMMIT with ROLLBACK has seen a statement fail."""
        with self.server.errors():
            if await self.writer.execute(word) != word:
                raise asyncpg.InterfaceError("a statement of the transaction had failed, so nothing of it is stored")

    async def _give_up(self) -> None:
        """Roll back; if that is not certain to work, close the connection, and the server does it."""
        try:
            await self.writer.execute("ROLLBACK")
        except FAILURES:
            self.writer.terminate()
        except BaseException:
            self.writer.terminate()
            raise

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        return next(iter(await self.all(sql, parameters)), None)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        reader = READER.get()
        with self.server.errors():
            try:
                async with asyncio.timeout(LONGEST_S[reader.lane]):
                    return await self._read(reader, sql, parameters)
            except (TimeoutError, asyncpg.QueryCanceledError):
                if LONGEST_S[reader.lane] is None:
                    raise
        raise LateError(f"a query took more than {LONGEST_S[reader.lane]:g} s")

    async def _read(self, reader: LaneReader, sql: str, parameters: Sequence[Any]) -> list[StoreRow]:
        turns = self.lanes[reader.lane]
        await turns.take(reader.who)
        try:
            return cast(list[StoreRow], await self.pools[reader.lane].fetch(dialect.query(sql), *parameters))
        finally:
            turns.give(None)

    @property
    def checked(self) -> bool:
        return True

    async def damage(self) -> str:
        return ""  # the server checks its own pages

    async def probe(self) -> None:
        with self.server.errors():
            if self.prober is None or self.prober.is_closed():
                self.prober = await self.server.connect()
            await self.prober.execute("SELECT 1")

    def cut(self) -> None:
        for pool in self.pools.values():
            pool.terminate()
        for connection in filter(None, (self.writer, self.prober)):
            connection.terminate()

    async def close(self) -> None:
        for pool in self.pools.values():
            with contextlib.suppress(*FAILURES):
                await asyncio.wait_for(pool.close(), CONNECT_TIMEOUT_S)
        with contextlib.suppress(*FAILURES):
            await self.writer.close(timeout=CONNECT_TIMEOUT_S)
        self.cut()


async def open_postgres(dsn: str, name: str) -> PostgresStore:
    """Connect, lock and migrate. Raises StoreDamagedError if the database cannot be used."""
    server = PostgresDatabase(dsn, name)
    async with contextlib.AsyncExitStack() as undo:
        try:
            with server.errors():
                writer = await server.connect()
                undo.callback(writer.terminate)
                await take_lock(writer, server)
                await migrate(writer, server)
                pools = {lane: await open_pool(server, lane, undo) for lane in ReadLane}
        except (StoreError, ValueError) as error:
            said = f"The store cannot be used: {error}. Nothing was changed; see to the server and the setting `store`."
            if isinstance(error.__cause__, AWAY):
                raise StoreAwayError(said, str(error)) from error
            raise StoreDamagedError(said) from error
        undo.pop_all()
        return PostgresStore(server, writer, pools)


async def open_pool(server: PostgresDatabase, lane: ReadLane, undo: contextlib.AsyncExitStack) -> Any:
    """Open the connections of a lane, terminated by `undo`. The server itself ends queries that take too long, also for
    a client that cannot tell it any more."""
    longest_s = LONGEST_S[lane] or COMMAND_TIMEOUT_S
    settings = {"application_name": server.name, "default_transaction_read_only": "on"}
    pool = await asyncpg.create_pool(
        server.dsn, min_size=1, max_size=AT_ONCE[lane], timeout=CONNECT_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S,
        init=prepare, server_settings=settings | {"statement_timeout": str(int(longest_s * 1000))},
    )  # fmt: skip
    undo.callback(pool.terminate)
    return pool


@contextlib.asynccontextmanager
async def snapshot(dsn: str, name: str) -> AsyncIterator[Transaction]:
    """Read the database as of one moment, while a daemon works with it. Raises StoreError, and StoreDamagedError if its
    schema is not this version's."""
    server = PostgresDatabase(dsn, name)
    with server.errors():
        connection = await server.connect()
    try:
        with server.errors():
            await connection.transaction(isolation="repeatable_read", readonly=True).start()
            applied = await applied_to(connection)
        if migrations.pending(migrations.migrations(), applied, server.place):
            raise StoreDamagedError(f"{server.place} has an older schema: start the daemon of this version once.")
        yield PostgresTransaction(connection, server)
    finally:
        connection.terminate()


@contextlib.asynccontextmanager
async def reading_connection(dsn: str, name: str) -> AsyncIterator[Transaction]:
    """Read the database beside a daemon, each query for itself: nothing is held back meanwhile. Raises StoreError, and
    StoreDamagedError if its schema is not this version's."""
    server = PostgresDatabase(dsn, name)
    with server.errors():
        connection = await server.connect()
    try:
        with server.errors():
            await connection.execute("SET default_transaction_read_only = on")
            applied = await applied_to(connection)
        if migrations.pending(migrations.migrations(), applied, server.place):
            raise StoreDamagedError(f"{server.place} has an older schema: start the daemon of this version once.")
        yield PostgresTransaction(connection, server)
    finally:
        connection.terminate()


async def take_lock(connection: Any, server: PostgresDatabase) -> None:
    """Lock the store against other daemons. A connection left over from an earlier daemon of this home is terminated:
    the lock of the home, which we hold, ensures that no other daemon has our name. Raises StoreError."""
    take = "SELECT pg_try_advisory_lock($1)"
    if await connection.fetchval(take, LOCK):
        return
    holder = await connection.fetchrow(HOLDER)
    if holder is not None and holder["name"] == server.name:
        await connection.execute("SELECT pg_terminate_backend($1, 5000)", holder["pid"])
    if await connection.fetchval(take, LOCK):
        return
    other = holder["name"] if holder is not None else "another daemon"
    raise StoreError(
        f"{server.place} is in use by {other}, and one store serves one daemon; stop that one, or give this node a "
        "database of its own"
    )


async def migrate(connection: Any, server: PostgresDatabase) -> None:
    """Migrate the database to the newest schema, completely or not at all."""
    async with connection.transaction():
        for sql in dialect.schema(migrations.LEDGER):
            await connection.execute(sql)
        applied, known = await applied_to(connection), migrations.migrations()
        missing = migrations.pending(known, applied, server.place)
        for repair in migrations.REPAIRS:
            if repair.version in applied and not await connection.fetch(
                THERE, repair.table, repair.column or repair.index
            ):
                for sql in dialect.schema(repair.script):
                    await connection.execute(sql)
        for correct in migrations.corrections(known, applied):
            await connection.execute(dialect.query(migrations.CORRECT), *correct)
        for one in missing:
            for sql in dialect.schema(one.script):
                await connection.execute(sql)
            await connection.execute(dialect.query(migrations.RECORD), one.version, one.sha256, now())


async def applied_to(connection: Any) -> dict[int, str]:
    """Return version and checksum of the migrations that the database has."""
    return {row["version"]: row["sha256"] for row in await connection.fetch(migrations.APPLIED)}
