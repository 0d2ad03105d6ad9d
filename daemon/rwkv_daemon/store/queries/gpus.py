"""Queries about GPUs: the inventory, and when another process computed beside an engine of ours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rwkv_daemon.store.interface import Store, Transaction


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU of the inventory. `record` is JSON of the GPU's condition."""

    id: str
    parent: str
    position: int
    slot: int | None
    name: str
    first_seen: str
    record: str


async def known_gpus(store: Store) -> list[GpuRow]:
    """Return every GPU of the inventory."""
    rows = await store.all("SELECT id, parent, position, slot, name, first_seen, record FROM gpu ORDER BY position, id")
    return [GpuRow(*row) for row in rows]


async def save_gpus(db: Transaction, rows: Iterable[GpuRow]) -> None:
    """Store GPUs as they are now; `first_seen` of a known one stays."""
    await db.many(
        "INSERT INTO gpu (id, parent, position, slot, name, first_seen, record) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, position = excluded.position, slot = excluded.slot, "
        "name = excluded.name, record = excluded.record",
        [(row.id, row.parent, row.position, row.slot, row.name, row.first_seen, row.record) for row in rows],
    )


async def forget_gpu(db: Transaction, gpu: str) -> None:
    """Remove a GPU that is not in this node any more."""
    await db.execute("DELETE FROM gpu WHERE id = ?", (gpu,))


async def begin_contention(db: Transaction, gpu: str, at: str, who: str) -> None:
    """Store that since `at` somebody else (`who`, in words) computes beside an engine of ours on a GPU."""
    await db.execute("INSERT INTO gpu_contention (gpu, began, who) VALUES (?, ?, ?)", (gpu, at, who))


async def end_contention(db: Transaction, gpu: str, at: str) -> None:
    """Store that the contention of a GPU, stored by `begin_contention`, ended at `at`."""
    await db.execute("UPDATE gpu_contention SET ended = ? WHERE gpu = ? AND ended = ''", (at, gpu))


async def open_contention(store: Store) -> dict[str, str]:
    """Return who computes beside an engine of ours, by GPU, as far as the store knows."""
    return {row["gpu"]: row["who"] for row in await store.all("SELECT gpu, who FROM gpu_contention WHERE ended = ''")}


async def contended(store: Store, gpus: Sequence[str], since: str, until: str) -> list[str]:
    """Return who else computed on these GPUs in that time, as sentences for a score's provenance."""
    if not gpus:
        return []
    places = ", ".join("?" * len(gpus))
    rows = await store.all(
        f"SELECT gpu, began, ended, who FROM gpu_contention WHERE gpu IN ({places}) AND began <= ? "
        "AND (ended = '' OR ended >= ?) ORDER BY began LIMIT 20",
        (*gpus, until, since),
    )
    return [f"{row['gpu']}: {row['who']} from {row['began']} to {row['ended'] or 'now'}" for row in rows]
