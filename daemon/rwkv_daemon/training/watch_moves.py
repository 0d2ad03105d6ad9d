"""Storing what becomes of watched checkpoints, with an event for each change."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.store import WatchedRow
from rwkv_daemon.store.queries.training.watches import remove_watched, update_watched
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training.folders.watched_folder import WatchedFolder
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl.protocol.states import WatchedState

MOST_TRIES: Final = 3
FEW: Final = 200
"""Checkpoints that are stored in one transaction."""


class WatchedMove(NamedTuple):
    """A checkpoint that goes into another state, with its other columns."""

    row: WatchedRow
    state: WatchedState
    reason: str
    columns: dict[str, Any]


async def move(
    records: Records, folder: WatchedFolder, row: WatchedRow, state: WatchedState, reason: str, **columns: Any
) -> None:
    """Store what becomes of a checkpoint."""
    await move_all(records, folder, [WatchedMove(row, state, reason, columns)])


async def move_all(records: Records, folder: WatchedFolder, moves: Sequence[WatchedMove]) -> None:
    """Store what becomes of many checkpoints, some at a time."""
    for first in range(0, len(moves), FEW):
        async with records.change() as change:
            moved = [await move_in(change, folder, one) for one in moves[first : first + FEW]]
        folder.rows |= {row.id: row for row in moved}


async def move_in(change: Change, folder: WatchedFolder, moved: WatchedMove) -> WatchedRow:
    """Store what becomes of a checkpoint in a transaction; the caller keeps the returned row after the commit."""
    row, state, reason, columns = moved
    await update_watched(change.db, row.id, state=state, reason=reason, **columns)
    if (state, reason) != (row.state, row.reason):
        said = f"{folder.row.called}: {row.name} is {state}" + (f": {reason}" if reason else "")
        await change.note("watch", session=columns.get("session", row.session), text=said)
    crash_point("watch-in-step")
    return replace(row, state=state, reason=reason, **columns)


async def not_now(
    records: Records, folder: WatchedFolder, row: WatchedRow, reason: str, clock: float, pause_s: float, **columns: Any
) -> None:
    """Note that something could not be done with a checkpoint. It is tried again after pauses that grow, then it is
    parked with the reason."""
    tries = row.tries + 1
    folder.retry_at[row.id, columns.get("identity", row.identity)] = clock + pause_s * 2**tries
    if tries >= MOST_TRIES:
        await move(records, folder, row, "parked", reason, tries=tries, finished=now(), **columns)
    else:
        await move(records, folder, row, row.state, reason, tries=tries, **columns)


async def take_over(
    records: Records, folder: WatchedFolder, row: WatchedRow, before: WatchedRow, **columns: Any
) -> None:
    """Note that a name has the content again that it had before: that is no new work. The newer row becomes what the
    older one was, which goes; what had vanished, or what an operator wants, is ready again."""
    kept: dict[str, Any] = {"wanted": int(bool(row.wanted or before.wanted))} | {
        name: getattr(before, name)
        for name in ("left_out", "tries", "model", "session", "jobs", "own_jobs", "seen", "ready",
                     "dispatched", "finished")
    }  # fmt: skip
    state, reason = before.state, before.reason
    if state == "vanished" or (row.wanted and state in {"superseded", "parked"}):
        state, reason = "ready", ""
        kept |= {"ready": now(), "finished": "", "left_out": ""}
    async with records.change() as change:
        await remove_watched(change.db, before.id)
        await update_watched(change.db, row.id, state=state, reason=reason, **(columns | kept))
        await change.note("watch", text=f"{folder.row.called}: {row.name} has the content that it had before")
    del folder.rows[before.id]
    folder.rows[row.id] = replace(row, state=state, reason=reason, **(columns | kept))
