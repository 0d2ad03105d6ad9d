"""The audit trail in the store: entries are added and read, never changed."""

import json
from collections.abc import Mapping, Sequence

from rwkv_daemon.store.interface import Store, StoreRow, Transaction


async def add_entry(db: Transaction, values: Sequence[object], data: Mapping[str, object]) -> None:
    """Add one entry; `values` are at, uid, gid, pid, name, verb, target and outcome."""
    await db.execute(
        "INSERT INTO audit (at, uid, gid, pid, name, verb, target, outcome, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, json.dumps(data, ensure_ascii=False)),
    )


async def entries(store: Store, *, since: str, user: str, verb: str, before: int, limit: int) -> list[StoreRow]:
    """Return one page, newest first; empty values and 0 do not filter."""
    return await store.all(
        "SELECT * FROM audit WHERE (? = '' OR at >= ?) AND (? = '' OR name = ? OR CAST(uid AS TEXT) = ?) "
        "AND (? = '' OR verb = ?) AND (? = 0 OR id < ?) ORDER BY id DESC LIMIT ?",
        (since, since, user, user, user, verb, verb, before, before, limit),
    )
