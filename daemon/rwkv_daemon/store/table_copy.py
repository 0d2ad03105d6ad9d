"""Copying every row of one store into another, of either kind, for backup, restore and migrate.

Tables are read in the order of their keys, so two stores with the same rows have the same checksum.
"""

import contextlib
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import msgspec

from rwkv_daemon.store import migrations
from rwkv_daemon.store.interface import StoreRow, Transaction

PAGE: Final = 2000


class RowSource(Protocol):
    """A store, or a transaction that sees one moment of it."""

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        """Return all rows of a query."""


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """A table of the schema. `counter` is the column that numbers its rows, if there is one."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    counter: str


@cache
def tables() -> tuple[SchemaTable, ...]:
    """Return the tables of the newest schema, each after those that it refers to."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        for one in migrations.migrations():
            db.executescript(one.script)
        listed = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        return tuple(_table(db, name, sql) for name, sql in db.execute(listed).fetchall())


def _table(db: sqlite3.Connection, name: str, sql: str) -> SchemaTable:
    columns = db.execute(f"SELECT name, pk FROM pragma_table_info('{name}') ORDER BY cid").fetchall()
    key = tuple(column for column, place in sorted(columns, key=lambda one: one[1]) if place)
    return SchemaTable(name, tuple(column for column, _ in columns), key, key[0] if "AUTOINCREMENT" in sql else "")


@dataclass(frozen=True, slots=True)
class TableChecksum:
    """How many rows a table has, and the checksum of all."""

    rows: int
    sha256: str


async def pages(source: RowSource, table: SchemaTable) -> AsyncIterator[list[StoreRow]]:
    """Yield the rows of a table in the order of its key, some thousand at a time."""
    key = ", ".join(table.key)
    places = ", ".join("?" * len(table.key))
    start = f"SELECT {', '.join(table.columns)} FROM {table.name}"
    condition, last = "", ()
    while rows := await source.all(f"{start}{condition} ORDER BY {key} LIMIT {PAGE}", last):
        yield rows
        condition, last = f" WHERE ({key}) > ({places})", tuple(rows[-1][name] for name in table.key)


async def copy_table(source: RowSource, target: Transaction, table: SchemaTable) -> TableChecksum:
    """Copy one table; returns the checksum of what was read."""
    count, digest = 0, hashlib.sha256()
    async for rows in pages(source, table):
        values = [tuple(row) for row in rows]
        await target.load(table.name, table.columns, values)
        count += len(values)
        digest.update(msgspec.msgpack.encode(values))
    if table.counter:
        await target.count_on(table.name, table.counter)
    return TableChecksum(count, digest.hexdigest())


async def sum_of(source: RowSource, table: SchemaTable) -> TableChecksum:
    """Return the number of rows of a table, and their checksum in the order of its key."""
    count, digest = 0, hashlib.sha256()
    async for rows in pages(source, table):
        values = [tuple(row) for row in rows]
        count += len(values)
        digest.update(msgspec.msgpack.encode(values))
    return TableChecksum(count, digest.hexdigest())


class CopyError(Exception):
    """The rows that arrived differ from those that were sent. The message says in which table."""


async def copy_store(source: RowSource, target: Transaction) -> dict[str, int]:
    """Copy everything into an empty store, in the caller's transaction, and read it again; returns the rows of each
    table. If it raises CopyError, the transaction must not commit."""
    found: dict[str, int] = {}
    for table in tables():
        sent = await copy_table(source, target, table)
        arrived = await sum_of(target, table)
        if sent != arrived:
            raise CopyError(f"{table.name}: {sent.rows} rows were sent and {arrived.rows} arrived, or they differ")
        found[table.name] = sent.rows
    return found


async def empty(target: Transaction) -> None:
    """Delete every row, first from the tables that refer to others."""
    for table in reversed(tables()):
        await target.execute(f"DELETE FROM {table.name}")


async def insert(target: Transaction, name: str, values: dict[str, Any]) -> None:
    """Add one row, unless it is there. Columns that the schema does not have any more are left out."""
    table = next(table for table in tables() if table.name == name)
    known = {column: values[column] for column in table.columns if column in values}
    await target.execute(
        f"INSERT INTO {name} ({', '.join(known)}) VALUES ({', '.join('?' * len(known))}) ON CONFLICT DO NOTHING",
        tuple(known.values()),
    )


async def is_empty(source: RowSource, table: SchemaTable) -> bool:
    """Whether a table has no rows."""
    return not await source.all(f"SELECT 1 AS one FROM {table.name} LIMIT 1")
