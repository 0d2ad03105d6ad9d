"""Queries about pinned baselines, and about models whose scores were given."""

from rwkv_daemon.rules.work_keys import GIVEN
from rwkv_daemon.store.interface import Store, StoreRow, Transaction
from rwkv_daemon.store.wall_time import now


async def all_pins(store: Store) -> list[StoreRow]:
    """Return every (pattern, model, who, created, scored): whether the model has a score."""
    return await store.all(
        "SELECT pin.*, CASE WHEN EXISTS (SELECT 1 FROM job j JOIN score s ON s.job = j.id WHERE j.model = pin.model) "
        "THEN 1 ELSE 0 END AS scored FROM pin ORDER BY created, pattern"
    )


async def set_pin(db: Transaction, pattern: str, model: str, who: str) -> None:
    """Compare models of this pattern with that one, from now on."""
    await remove_pin(db, pattern)
    await db.execute("INSERT INTO pin (pattern, model, who, created) VALUES (?, ?, ?, ?)", (pattern, model, who, now()))


async def remove_pin(db: Transaction, pattern: str) -> bool:
    """Remove a pattern's pin; returns whether there was one."""
    return await db.one("DELETE FROM pin WHERE pattern = ? RETURNING pattern", (pattern,)) is not None


async def is_measured(store: Store | Transaction, model: str) -> bool:
    """Whether a job of a model has been measured, or is to be, here; scores that were given do not count."""
    row = await store.one(
        f"SELECT 1 AS known FROM job WHERE model = ? AND grader_version <> '{GIVEN}' LIMIT 1", (model,)
    )
    return row is not None


async def given_models(store: Store) -> list[StoreRow]:
    """Return (model, grader, scores, added) of every model and program whose scores were given: those programs' jobs
    have no samples."""
    return await store.all(
        f"SELECT model, grader, COUNT(*) AS scores, MAX(finished) AS added FROM job WHERE grader_version = '{GIVEN}' "
        "AND state <> 'deleted' GROUP BY model, grader ORDER BY model, grader"
    )
