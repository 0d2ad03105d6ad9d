"""Queries about watched folders and what became of the checkpoints in them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.typed_rows import WatchedRow, WatchRow, columns_of

AT_ONCE: Final = 500
"""Jobs that are looked up with one query."""


class JobStand(NamedTuple):
    """Where a job stands. `has_begun`: it has run, maybe before a pause."""

    state: str
    reason: str
    has_begun: bool


async def add_watch(db: Transaction, values: Mapping[str, str | int]) -> WatchRow:
    """Store a watch and return it."""
    names = ", ".join(values)
    places = ", ".join("?" * len(values))
    row = await db.one(f"INSERT INTO watch ({names}) VALUES ({places}) RETURNING *", tuple(values.values()))
    return WatchRow.of(row)


async def all_watches(store: Store) -> list[WatchRow]:
    """Return every watch, the oldest first."""
    return list(map(WatchRow.of, await store.all("SELECT * FROM watch ORDER BY id")))


async def update_watch(db: Transaction, watch: int, **values: str | int) -> None:
    """Set columns of a watch."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    await db.execute(f"UPDATE watch SET {assignments} WHERE id = ?", (*values.values(), watch))


async def remove_watch(db: Transaction, watch: int) -> None:
    """Remove a watch, and what is known of its checkpoints. Jobs and scores stay."""
    await db.execute("DELETE FROM watched WHERE watch = ?", (watch,))
    await db.execute("DELETE FROM watch WHERE id = ?", (watch,))


async def watched_of(store: Store, watch: int) -> list[WatchedRow]:
    """Return all checkpoints of a watch, in the order in which they were seen."""
    return list(map(WatchedRow.of, await store.all("SELECT * FROM watched WHERE watch = ? ORDER BY id", (watch,))))


async def add_watched(db: Transaction, rows: Sequence[Mapping[str, Any]]) -> list[WatchedRow]:
    """Store checkpoints that were seen, and return them."""
    found: list[WatchedRow] = []
    for values in rows:
        names, places = ", ".join(values), ", ".join("?" * len(values))
        row = await db.one(f"INSERT INTO watched ({names}) VALUES ({places}) RETURNING *", tuple(values.values()))
        found.append(WatchedRow.of(row))
    return found


async def update_watched(db: Transaction, number: int, **values: Any) -> None:
    """Set columns of a checkpoint."""
    assert values.keys() <= set(columns_of(WatchedRow)), values
    assignments = ", ".join(f"{name} = ?" for name in values)
    await db.execute(f"UPDATE watched SET {assignments} WHERE id = ?", (*values.values(), number))


async def remove_watched(db: Transaction, number: int) -> None:
    await db.execute("DELETE FROM watched WHERE id = ?", (number,))


async def job_stands(store: Store, numbers: Sequence[int]) -> dict[int, JobStand]:
    """Return where these jobs stand, by number, of those that there are."""
    found: dict[int, JobStand] = {}
    for first in range(0, len(numbers), AT_ONCE):
        some = tuple(numbers[first : first + AT_ONCE])
        places = ", ".join("?" * len(some))
        rows = await store.all(f"SELECT id, state, reason, started FROM job WHERE id IN ({places})", some)
        found |= {row["id"]: JobStand(row["state"], row["reason"], bool(row["started"])) for row in rows}
    return found


async def is_name_of_another(store: Store, model: str, sha256: str) -> bool:
    """Whether a job measures, or has measured, other weights under this name."""
    row = await store.one(
        "SELECT 1 FROM job WHERE model = ? AND weights_sha256 NOT IN ('', ?) AND state <> 'deleted' LIMIT 1",
        (model, sha256),
    )
    return row is not None


async def forget_problem(db: Transaction, identity: tuple[int, int, int, int]) -> None:
    """Have a file hashed and looked at again that was no checkpoint."""
    await db.execute(
        "DELETE FROM weights WHERE device = ? AND inode = ? AND size = ? AND changed_ns = ? AND problem <> ''", identity
    )


async def hashed_as(store: Store, identity: tuple[int, int, int, int]) -> tuple[str, str]:
    """Return (sha256, why it is no checkpoint that can be run) of a file; empty if it is not hashed yet."""
    row = await store.one(
        "SELECT sha256, problem FROM weights WHERE device = ? AND inode = ? AND size = ? AND changed_ns = ?", identity
    )
    return (row["sha256"], row["problem"]) if row else ("", "")
