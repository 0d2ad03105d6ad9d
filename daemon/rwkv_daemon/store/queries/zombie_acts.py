"""Queries about processes on GPUs: the attempt of a marker, the reaps, and those without an outcome."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rwkv_daemon.store.interface import Store, StoreRow, Transaction
from rwkv_daemon.store.queries.engines import LIVE
from rwkv_daemon.store.wall_time import now

COLUMNS: Final = (
    "act", "automatic", "uid", "asker_pid", "asker", "pid", "start_ticks", "boot_id", "class", "gpus", "snapshot",
    "rules",
)  # fmt: skip
"""What every row of a reap repeats, so that each can be understood by itself."""


async def attempts_of(store: Store, markers: Iterable[str]) -> dict[str, StoreRow]:
    """Return engines and runners by their marker: `name`, `job` and `number` or `engine`, `ended` (empty: it runs)."""
    found: dict[str, StoreRow] = {}
    for marker in markers:
        row = await store.one(ENGINE, (*LIVE, marker)) or await store.one(RUNNER, (marker,))
        if row is not None:
            found[marker] = row
    return found


ENGINE: Final = (
    "SELECT id AS engine, 0 AS job, 0 AS number, "
    f"CASE WHEN state IN ({', '.join('?' * len(LIVE))}) THEN '' ELSE ended END AS ended FROM engine WHERE uuid = ?"
)
RUNNER: Final = (
    "SELECT 0 AS engine, job, number, CASE WHEN state = 'running' THEN '' ELSE ended END AS ended "
    "FROM attempt WHERE uuid = ?"
)


async def add_step(
    db: Transaction, act: Mapping[str, Any], step: str, *, outcome: str = "", text: str = "", memory_bytes: int | None
) -> None:
    """Add one row of a reap; `act` has the COLUMNS."""
    names = (*COLUMNS, "at", "step", "outcome", "text", "memory_bytes")
    values = (*(act[name] for name in COLUMNS), now(), step, outcome, text, memory_bytes)
    await db.execute(f"INSERT INTO reap_event ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)


async def unfinished(store: Store) -> Sequence[StoreRow]:
    """Return intents without an outcome: the daemon died between the two."""
    return await store.all(
        "SELECT * FROM reap_event AS intent WHERE step = 'intent' AND NOT EXISTS "
        "(SELECT 1 FROM reap_event AS done WHERE done.act = intent.act AND done.step = 'outcome') ORDER BY id"
    )


async def by_itself_since(store: Store, since: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (act, when, GPUs) of the reaps that the daemon began by itself since then, for the rate limit."""
    rows = await store.all(
        "SELECT act, at, gpus FROM reap_event WHERE step = 'intent' AND at >= ? AND automatic = 1 ORDER BY id", (since,)
    )
    return [(row["act"], row["at"], tuple(json.loads(row["gpus"]))) for row in rows]


async def history(store: Store, limit: int) -> Sequence[StoreRow]:
    """Return the last outcomes, newest first, each with the memory that was in use at the decision."""
    return await store.all(
        "SELECT done.*, intent.memory_bytes AS before_bytes FROM reap_event AS done "
        "JOIN reap_event AS intent ON intent.act = done.act AND intent.step = 'intent' "
        "WHERE done.step = 'outcome' ORDER BY done.id DESC LIMIT ?",
        (limit,),
    )


async def outcome_of(store: Store, act: str) -> StoreRow | None:
    """Return the outcome of one reap, or None."""
    return await store.one("SELECT outcome, text FROM reap_event WHERE act = ? AND step = 'outcome'", (act,))
