"""Queries about how long samples take, and about the waiting jobs."""

from collections.abc import Iterable, Sequence
from sys import intern
from typing import Any

from rwkv_daemon.rules.queued_job import QueuedJob
from rwkv_daemon.rules.rate_estimate import MeasuredRate, RateKey
from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.wall_time import now

COLUMNS = ", ".join(QueuedJob.__dataclass_fields__)


def queued_job(row: Iterable[Any]) -> QueuedJob:
    """Return a row as a queued job. Ten thousand jobs name the same models, so each text is kept once."""
    values: list[Any] = [intern(value) if type(value) is str else value for value in row]
    return QueuedJob(*values)


async def queued_page(store: Store, after: int, limit: int) -> list[QueuedJob]:
    """Return waiting jobs by number, from one on."""
    rows = await store.all(
        f"SELECT {COLUMNS} FROM job WHERE state = 'queued' AND id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    return list(map(queued_job, rows))


async def queued_among(store: Store, numbers: Sequence[int]) -> list[QueuedJob]:
    """Return which of these jobs wait for a place."""
    places = ", ".join("?" * len(numbers))
    rows = await store.all(f"SELECT {COLUMNS} FROM job WHERE id IN ({places}) AND state = 'queued'", numbers)
    return list(map(queued_job, rows))


async def queued_sum(store: Store) -> tuple[int, int]:
    """Return how many jobs wait for a place, and the sum of their numbers."""
    row = await store.one("SELECT COUNT(*) AS n, COALESCE(SUM(id), 0) AS ids FROM job WHERE state = 'queued'")
    assert row is not None
    return int(row["n"]), int(row["ids"])


async def explain_jobs(db: Transaction, why: Sequence[tuple[str, str, int]]) -> None:
    """Store why jobs wait: (reason, detail, job). A job that was started meanwhile is left alone."""
    await db.many("UPDATE job SET reason = ?, detail = ? WHERE id = ? AND state = 'queued'", why)


async def file_sizes(store: Store) -> dict[str, int]:
    """Return the bytes of every checkpoint that was hashed, by its sha256."""
    rows = await store.all("SELECT sha256, MAX(size) AS size FROM weights GROUP BY sha256")
    return {row["sha256"]: row["size"] for row in rows}


async def known_rates(store: Store) -> list[MeasuredRate]:
    """Return every stored rate (seconds a sample), with the size of its weights in bytes, 0 if unknown."""
    sizes = await file_sizes(store)
    return [
        MeasuredRate(
            row["weights_sha256"],
            RateKey(row["benchmark"], row["kind"], row["numerics"], row["device"]),
            row["sample_s"],
            row["samples"],
            sizes.get(row["weights_sha256"], 0),
        )
        for row in await store.all("SELECT * FROM rate")
    ]


async def save_rate(db: Transaction, rate: MeasuredRate) -> None:
    """Store a measured rate in place of the earlier one of the same weights, benchmark, kind, numerics and device."""
    await db.execute(
        "INSERT INTO rate (weights_sha256, benchmark, kind, numerics, device, sample_s, samples, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (weights_sha256, benchmark, kind, numerics, device) "
        "DO UPDATE SET sample_s = excluded.sample_s, samples = excluded.samples, at = excluded.at",
        (rate.weights, *rate.place, rate.sample_s, rate.samples, now()),
    )
