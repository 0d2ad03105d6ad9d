"""Queries about engines: one row for each engine, live or gone."""

from typing import Any

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.typed_rows import EngineRow
from rwkv_daemon.store.wall_time import now

LIVE = ("starting", "loading", "ready", "unloading")


async def add_engine(db: Transaction, values: dict[str, Any]) -> int:
    """Add an engine that is about to be started; its lease counts as taken from this commit on. Returns its number."""
    values = values | {"state": "starting", "started": now()}
    row = await db.one(
        f"INSERT INTO engine ({', '.join(values)}) VALUES ({', '.join('?' * len(values))}) RETURNING id",
        tuple(values.values()),
    )
    assert row is not None
    return int(row["id"])


async def update_engine(db: Transaction, engine: int, **values: Any) -> None:
    """Set the named columns of one engine."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    await db.execute(f"UPDATE engine SET {assignments} WHERE id = ?", (*values.values(), engine))


async def live_engines(store: Store) -> list[EngineRow]:
    """Return the engines that hold a lease (starting, loading, ready or unloading), oldest first."""
    rows = await store.all(f"SELECT * FROM engine WHERE state IN ({', '.join('?' * len(LIVE))}) ORDER BY id", LIVE)
    return [EngineRow.of(row) for row in rows]


async def engine_in(db: Transaction, engine: int) -> EngineRow:
    """Return an engine as this transaction has written it."""
    return EngineRow.of(await db.one("SELECT * FROM engine WHERE id = ?", (engine,)))


async def get_engine(store: Store, engine: int) -> EngineRow | None:
    """Return an engine by number, live or gone; None if there is none."""
    row = await store.one("SELECT * FROM engine WHERE id = ?", (engine,))
    return EngineRow.of(row) if row else None


async def engine_numbers(store: Store) -> set[int]:
    """Return the number of every engine that there ever was."""
    return {row["id"] for row in await store.all("SELECT id FROM engine")}
