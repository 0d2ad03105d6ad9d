"""Leases, rates and fits in the store: nothing is given away twice, and what an earlier version held stays held."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

import rwkv_daemon.store
from rwkv_daemon.rules.rate_estimate import MeasuredRate, RateKey
from rwkv_daemon.store import Store, StoreError
from rwkv_daemon.store.queries.engines import add_engine
from rwkv_daemon.store.queries.leases import (
    FitRow,
    engine_fits,
    forget_fit,
    free_lease,
    held_leases,
    save_fit,
    take_lease,
)
from rwkv_daemon.store.queries.rates import known_rates, save_rate

SCHEMA = Path(rwkv_daemon.store.__file__).parent / "schema"


def engine(uuid: str, lease: str = "GPU-1") -> dict[str, str]:
    return {
        "uuid": uuid, "model": "m", "weights_path": "/m", "weights_sha256": "aaa", "numerics": "fast", "lease": lease,
        "socket": "",
    }  # fmt: skip


async def test_the_store_itself_refuses_to_give_a_part_of_a_gpu_away_twice(store: Store) -> None:
    async with store.write() as db:
        first = await add_engine(db, engine("a"))
        await take_lease(db, "GPU-1", (0, 1), first)

    async def give_again() -> None:
        async with store.write() as db:
            second = await add_engine(db, engine("b"))
            await take_lease(db, "GPU-1", (1, 2), second)

    with pytest.raises(StoreError):
        await give_again()
    assert await held_leases(store) == {"GPU-1": {0: first, 1: first}}
    assert len(await store.all("SELECT * FROM engine")) == 1, "the engine went with its lease"
    async with store.write() as db:
        await free_lease(db, first)
    assert await held_leases(store) == {}


async def test_two_engines_hold_different_parts(store: Store) -> None:
    async with store.write() as db:
        first, second = await add_engine(db, engine("a")), await add_engine(db, engine("b"))
        await take_lease(db, "GPU-1", (0, 1), first)
        await take_lease(db, "GPU-1", (2, 3), second)
    assert await held_leases(store) == {"GPU-1": {0: first, 1: first, 2: second, 3: second}}


async def test_what_was_learned_is_kept_and_replaced(store: Store) -> None:
    fit = FitRow(weights_sha256="aaa", numerics="fast", device="H100", slots=64, bytes=7, load_s=12.5)
    rate = MeasuredRate("aaa", RateKey("gsm8k", "plain", "fast", "H100"), 0.5, 100)
    for sample_s in (0.5, 0.25):
        async with store.write() as db:
            await save_fit(db, fit)
            await save_rate(db, MeasuredRate(rate.weights, rate.place, sample_s, 200))
    assert await engine_fits(store) == [fit]
    [known] = await known_rates(store)
    assert (known.sample_s, known.samples, known.place) == (0.25, 200, rate.place)
    async with store.write() as db:
        await forget_fit(db, "aaa")
    [left] = await engine_fits(store)
    assert (left.slots, left.bytes, left.load_s) == (0, 0, 12.5)


def test_engines_of_the_version_before_hold_their_whole_leases(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "old.sqlite")) as db:
        for name in ("0001_first.sql", "0002_grades.sql"):
            db.executescript((SCHEMA / name).read_text(encoding="utf-8"))
        for uuid, lease, state in (("a", "cpu:0", "gone"), ("b", "cpu:0", "ready"), ("c", "GPU-1", "unloading")):
            values = engine(uuid, lease) | {"state": state, "started": ""}
            db.execute(
                f"INSERT INTO engine ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                tuple(values.values()),
            )
        db.executescript((SCHEMA / "0003_leases.sql").read_text(encoding="utf-8"))
        held = db.execute(
            "SELECT gpu, COUNT(*), MIN(engine), MAX(engine) FROM lease GROUP BY gpu ORDER BY gpu"
        ).fetchall()
    assert held == [("GPU-1", 8, 3, 3), ("cpu:0", 8, 2, 2)]
