"""Queries about changes of very many jobs at once."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.wall_time import now


class BulkOrder(NamedTuple):
    """A row of `bulk`: a change of every job up to number `upto` that matches; an empty session or model matches any.
    Jobs up to `reached` have been looked at; `ended` is empty until all have been."""

    id: str
    at: str
    who: str
    act: str
    session: str
    model: str
    state: str
    upto: int
    reached: int = 0
    changed: int = 0
    unchanged: int = 0
    ended: str = ""


class OneOfMany(NamedTuple):
    """The columns of a job that a bulk change needs."""

    id: int
    session: str
    state: str
    reason: str
    wanted: str
    weights_sha256: str
    numerics: str
    generation_key: str
    total: int
    done: int
    stages: int
    stages_done: int


COLUMNS: Final = ", ".join(OneOfMany._fields)


async def jobs_of(store: Store, order: BulkOrder, states: Sequence[str], limit: int) -> list[OneOfMany]:
    """Return the next jobs in these states that an order has not reached, by number. Each state is read by its
    index."""
    clause, values = conditions(order)
    one = f"SELECT * FROM (SELECT {COLUMNS} FROM job WHERE state = ?{clause} ORDER BY id LIMIT ?) AS page"
    sql = f"{' UNION ALL '.join([one] * len(states))} ORDER BY id LIMIT ?"
    asked = [value for state in states for value in (state, *values, limit)]
    return [OneOfMany(*row) for row in await store.all(sql, (*asked, limit))]


async def count_of(store: Store, order: BulkOrder, states: Sequence[str]) -> int:
    """Return how many jobs in these states an order has still before it."""
    clause, values = conditions(order)
    places = ", ".join("?" * len(states))
    row = await store.one(f"SELECT COUNT(*) AS n FROM job WHERE state IN ({places}){clause}", (*states, *values))
    return int(row["n"]) if row else 0


def conditions(order: BulkOrder) -> tuple[str, tuple[Any, ...]]:
    """Return the condition for the jobs of an order that it has not reached."""
    clause, values = " AND id > ? AND id <= ?", [order.reached, order.upto]
    given: list[Any] = [*values]
    for name in ("session", "model"):
        if wanted := getattr(order, name):
            clause += f" AND {name} = ?"
            given.append(wanted)
    return clause, tuple(given)


async def put_order(db: Transaction, order: BulkOrder) -> None:
    """Store an order, or how far it has come."""
    await db.execute(
        f"INSERT INTO bulk ({', '.join(BulkOrder._fields)}) VALUES ({', '.join('?' * len(order))}) ON CONFLICT (id) "
        "DO UPDATE SET reached = excluded.reached, changed = excluded.changed, unchanged = excluded.unchanged, "
        "ended = excluded.ended",
        order,
    )


async def get_order(store: Store, name: str) -> BulkOrder | None:
    """Return the bulk change that a request id ordered; None if there is none."""
    row = await store.one(f"SELECT {', '.join(BulkOrder._fields)} FROM bulk WHERE id = ?", (name,))
    return BulkOrder(*row) if row else None


async def open_orders(store: Store) -> list[BulkOrder]:
    """Return the unfinished orders, in the order in which they came."""
    rows = await store.all(f"SELECT {', '.join(BulkOrder._fields)} FROM bulk WHERE ended = '' ORDER BY at, id")
    return [BulkOrder(*row) for row in rows]


async def forget_orders(db: Transaction, before: str) -> int:
    """Delete orders that ended before a time; returns how many."""
    return await db.execute("DELETE FROM bulk WHERE ended <> '' AND ended < ?", (before,))


PUT_ASIDE: Final = "wanted = '', wanted_reason = '', wanted_why = '', failure = ''"


def kept(reasons: str) -> str:
    """Return the assignments that clear reason and detail, unless the reason is one of `reasons`."""
    case = f"CASE WHEN reason IN ({reasons}) THEN"
    return f"reason = {case} reason ELSE '' END, detail = {case} detail ELSE '' END, {PUT_ASIDE}"


# The other columns that change are those that `Change.move` changes for a single job.


async def stop_all(db: Transaction, jobs: Sequence[OneOfMany], was: str, state: str) -> int:
    """Stop jobs that are in state `was`; returns how many were."""
    return await _move(db, jobs, was, "state = ?, finished = ?, " + kept("'held'"), (state, now()))


async def resume_all(db: Transaction, jobs: Sequence[OneOfMany], was: str, state: str) -> int:
    """Move jobs from state `was` to `state`, with their restarts, engine deaths and kills reset; returns how many
    moved."""
    fresh = "finished = '', restarts = 0, engine = NULL, engine_deaths = 0, kills = 0"
    return await _move(db, jobs, was, f"state = ?, {fresh}, reason = '', detail = '', {PUT_ASIDE}", (state,))


async def delete_all(db: Transaction, jobs: Sequence[OneOfMany], was: str, state: str) -> int:
    """Record jobs as deleted, move their scores away, and move those in state `was` to `state`; returns how many
    moved."""
    await put_away_all(db, jobs)
    return await _move(db, jobs, was, "state = ?, " + kept("'held', 'done'"), (state,))


async def _move(db: Transaction, jobs: Sequence[OneOfMany], was: str, sets: str, values: Sequence[str]) -> int:
    numbers = [job.id for job in jobs]
    places = ", ".join("?" * len(numbers))
    return await db.execute(f"UPDATE job SET {sets} WHERE id IN ({places}) AND state = ?", (*values, *numbers, was))


async def log_moves(db: Transaction, jobs: Sequence[OneOfMany], kind: str, state: str) -> None:
    """Add one event for each job to its own history."""
    numbers = [job.id for job in jobs]
    places = ", ".join("?" * len(numbers))
    await db.execute(
        "INSERT INTO event (at, kind, job, session, text) "
        f"SELECT ?, ?, id, session, model || ' ' || benchmark || ' ' || kind || ': {state}' FROM job "
        f"WHERE id IN ({places}) ORDER BY id",
        (now(), kind, *numbers),
    )


async def put_away_all(db: Transaction, jobs: Sequence[OneOfMany]) -> None:
    """Record jobs as deleted, which still have their states, and move their scores away."""
    numbers = [job.id for job in jobs]
    places = ", ".join("?" * len(numbers))
    columns = "job, grade_key, finished, view"
    await db.execute(
        f"INSERT INTO deletion (job, at, was) SELECT id, ?, state FROM job WHERE id IN ({places})", (now(), *numbers)
    )
    await db.execute(
        f"INSERT INTO deleted_score ({columns}) SELECT {columns} FROM score WHERE job IN ({places})", numbers
    )
    await db.execute(f"DELETE FROM score WHERE job IN ({places})", numbers)
