"""Queries about leases, and about what was measured of engines on a kind of device."""

from collections.abc import Iterable
from dataclasses import dataclass

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.typed_rows import FromRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow(FromRow):
    """A row of `engine_fit`; 0 if never measured."""

    weights_sha256: str
    numerics: str
    device: str
    slots: int = 0
    bytes: int = 0
    load_s: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.weights_sha256, self.numerics, self.device


async def take_lease(db: Transaction, gpu: str, slots: Iterable[int], engine: int) -> None:
    """Give an engine parts of a lease from this commit on. Raises StoreError if one of them is taken."""
    await db.many("INSERT INTO lease (gpu, slot, engine) VALUES (?, ?, ?)", [(gpu, slot, engine) for slot in slots])


async def free_lease(db: Transaction, engine: int) -> None:
    """Free the lease of an engine whose processes are gone."""
    await db.execute("DELETE FROM lease WHERE engine = ?", (engine,))


async def held_leases(store: Store) -> dict[str, dict[int, int]]:
    """Return the engine on each part of every lease that is taken."""
    found: dict[str, dict[int, int]] = {}
    for row in await store.all("SELECT gpu, slot, engine FROM lease ORDER BY gpu, slot"):
        found.setdefault(row["gpu"], {})[row["slot"]] = row["engine"]
    return found


async def engine_fits(store: Store) -> list[FitRow]:
    """Return what was measured of engines, for every combination of weights, numerics and kind of device."""
    return [FitRow.of(row) for row in await store.all("SELECT * FROM engine_fit")]


async def save_fit(db: Transaction, fit: FitRow) -> None:
    """Store what is known now, in place of earlier values."""
    await db.execute(
        "INSERT INTO engine_fit (weights_sha256, numerics, device, slots, bytes, load_s) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (weights_sha256, numerics, device) DO UPDATE SET slots = excluded.slots, bytes = excluded.bytes, "
        "load_s = excluded.load_s",
        (*fit.key, fit.slots, fit.bytes, fit.load_s),
    )


async def forget_fit(db: Transaction, weights_sha256: str) -> None:
    """Forget memory limits of these weights, as the operator wants them tried again."""
    await db.execute("UPDATE engine_fit SET slots = 0, bytes = 0 WHERE weights_sha256 = ?", (weights_sha256,))
