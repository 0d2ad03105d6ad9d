"""Queries about how long samples take, and about the jobs that wait."""

from collections.abc import Sequence
from dataclasses import dataclass

from rwkv_daemon.clock import now
from rwkv_daemon.estimate import Place, Rate
from rwkv_daemon.store.interface import Store, Transaction


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """What placement needs of a waiting job: not its configuration, of which 10,000 jobs would fill the memory."""

    id: int
    model: str
    weights_path: str
    weights_sha256: str
    benchmark: str
    kind: str
    numerics: str
    priority: int
    group_name: str
    total: int
    done: int
    generation_key: str


COLUMNS = ", ".join(QueuedJob.__dataclass_fields__)


async def queued_jobs(store: Store) -> list[QueuedJob]:
    """Every job that waits for a place."""
    rows = await store.all(f"SELECT {COLUMNS} FROM job WHERE state = 'queued'")
    return [QueuedJob(*row) for row in rows]


async def explain_jobs(db: Transaction, why: Sequence[tuple[str, str, int]]) -> None:
    """Keep why jobs wait: (reason, detail, job). One that was started meanwhile keeps its own."""
    await db.many("UPDATE job SET reason = ?, detail = ? WHERE id = ? AND state = 'queued'", why)


async def file_sizes(store: Store) -> dict[str, int]:
    """Bytes of every checkpoint that was hashed, by its sha256."""
    rows = await store.all("SELECT sha256, MAX(size) AS size FROM weights GROUP BY sha256")
    return {row["sha256"]: row["size"] for row in rows}


async def known_rates(store: Store) -> list[Rate]:
    """Every rate that was measured."""
    sizes = await file_sizes(store)
    return [
        Rate(
            row["weights_sha256"],
            Place(row["benchmark"], row["kind"], row["numerics"], row["device"]),
            row["sample_s"],
            row["samples"],
            sizes.get(row["weights_sha256"], 0),
        )
        for row in await store.all("SELECT * FROM rate")
    ]


async def save_rate(db: Transaction, rate: Rate) -> None:
    """Remember a measurement."""
    await db.execute(
        "INSERT INTO rate (weights_sha256, benchmark, kind, numerics, device, sample_s, samples, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (weights_sha256, benchmark, kind, numerics, device) "
        "DO UPDATE SET sample_s = excluded.sample_s, samples = excluded.samples, at = excluded.at",
        (rate.weights, *rate.place, rate.sample_s, rate.samples, now()),
    )
