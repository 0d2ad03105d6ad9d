"""One look at a watched folder: what has appeared, changed and gone, and which checkpoints are whole. Everything that a
look finds is stored before anything follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rwkv_daemon.catalogue.offered import NodeCatalogue, ReadyFile
from rwkv_daemon.changes.records import Records
from rwkv_daemon.store import WatchedRow
from rwkv_daemon.store.queries.training.watches import add_watched, hashed_as, remove_watched
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training.checkpoint_step import step_of
from rwkv_daemon.training.folders.answers import ANSWER_S, within
from rwkv_daemon.training.folders.root_scan import identity_key, markers_of
from rwkv_daemon.training.folders.still_files import SeenFile
from rwkv_daemon.training.folders.watched_folder import WatchedFolder
from rwkv_daemon.training.watch_moves import FEW, WatchedMove, move, move_all, not_now, take_over
from rwkv_daemon.training.watch_policy import order_of
from rwkv_weights.formats.completeness import is_whole
from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import open_plain

PAUSE_S: Final = 5
"""A file that could not be read is tried again after twice this time at the earliest."""


async def note_files(records: Records, folder: WatchedFolder, clock: float) -> None:
    """Store what a look has found: new names, new content under known ones, and what is gone."""
    files = folder.found.files
    folder.still.look(files, clock)
    current = folder.current()
    await add(records, folder, [name for name, file in files.items() if is_new(current.get(name), file)])
    moves, forgotten = list[WatchedMove](), list[WatchedRow]()
    for name, row in current.items():
        file = files.get(name)
        if file is not None:
            moves += followed(row, file) if row.identity != file.identity else []
        elif not folder.found.is_gone(name):
            continue
        elif follows_its_file(row) and not row.sha256:
            forgotten.append(row)  # nothing is known of what it held
        elif row.state == "ready" or follows_its_file(row):
            moves.append(WatchedMove(row, "vanished", "it was deleted before it was measured", {"finished": now()}))
    await forget(records, folder, forgotten)
    await move_all(records, folder, moves)


async def add(records: Records, folder: WatchedFolder, appeared: Sequence[str]) -> None:
    """Store checkpoints that are seen for the first time, in the order of their run."""
    current = folder.current()
    seen = now()  # of all of them, so that what one look has found is in the order of its run in every list
    values = [values_of(folder, name, current.get(name), seen) for name in appeared]
    values.sort(key=lambda one: order_of(one["name"], one["step"], one["modified_ns"]))
    for first in range(0, len(values), FEW):
        some = values[first : first + FEW]
        async with records.change() as change:
            rows = await add_watched(change.db, some)
            names = ", ".join(one["name"] for one in some[:3]) + (f" and {len(some) - 3} more" if some[3:] else "")
            await change.note("watch", text=f"{folder.row.called}: {names} seen")
        folder.rows |= {row.id: row for row in rows}


async def forget(records: Records, folder: WatchedFolder, rows: Sequence[WatchedRow]) -> None:
    """Remove checkpoints that went before anything was known of them, as files do that are renamed when whole."""
    for first in range(0, len(rows), FEW):
        some = rows[first : first + FEW]
        async with records.change() as change:
            for row in some:
                await remove_watched(change.db, row.id)
            await change.note("watch", text=f"{folder.row.called}: {some[0].name} is gone before it was complete")
        for row in some:
            del folder.rows[row.id]


def is_new(row: WatchedRow | None, file: SeenFile) -> bool:
    """Whether a file is not what is known under its name."""
    if row is None:
        return True
    return not follows_its_file(row) and (row.identity != file.identity or row.state == "vanished")


def follows_its_file(row: WatchedRow) -> bool:
    """Whether a file may change as it likes: it is the same checkpoint, which was never known, or is none."""
    return not row.sha256 or (row.state == "parked" and not row.ready)


def followed(row: WatchedRow, file: SeenFile) -> list[WatchedMove]:
    """Return what becomes of a checkpoint whose file has changed, if anything does: other content is another row."""
    columns: dict[str, Any] = {"identity": file.identity, "modified_ns": file.modified_ns, "tries": 0}
    if row.state == "ready":
        reason = "it was written over before it was measured"
        return [WatchedMove(row, "vanished", reason, {"finished": now()})]
    if not follows_its_file(row):
        return []
    if row.left_out == "skipped":
        return [WatchedMove(row, row.state, row.reason, columns)]
    if row.state != "settling" or row.reason or row.whole:
        fresh = {"sha256": "", "whole": "", "left_out": "", "finished": ""}
        return [WatchedMove(row, "settling", "", columns | fresh)]
    return []  # it grows


def values_of(folder: WatchedFolder, name: str, before: WatchedRow | None, seen: str) -> dict[str, Any]:
    """Return a checkpoint that is seen for the first time as columns; `before` had its name, and if an operator wanted
    that measured, this is wanted."""
    file = folder.found.files[name]
    return {
        "watch": folder.row.id, "name": name, "identity": file.identity, "modified_ns": file.modified_ns,
        "step": step_of(name, folder.rules.step), "state": "settling", "seen": seen,
        "wanted": int(before is not None and before.wanted and before.state != "done"),
    }  # fmt: skip


async def find_whole(records: Records, folder: WatchedFolder, clock: float) -> None:
    """Store which of the settling checkpoints are complete: those that stand still, or whose marker file is there, and
    of which their format says that nothing is missing."""
    moves = list[WatchedMove]()
    for row in folder.in_state("settling"):
        file = folder.found.files.get(row.name)
        if file is None or row.whole == file.identity:
            continue
        columns = {"identity": file.identity, "modified_ns": file.modified_ns}
        if waits := waits_for(folder, row, file, clock):
            if waits != row.reason:
                moves.append(WatchedMove(row, "settling", waits, columns))
        elif folder.retry_at.get((row.id, file.identity), 0.0) <= clock and may_read(folder, row, clock):
            missing = await within(ANSWER_S, missing_at, Path(folder.row.root) / row.name)
            if missing:
                await could_not_read(records, folder, row, missing, clock)
            elif missing is not None:
                moves.append(WatchedMove(row, "settling", "", columns | {"whole": file.identity, "tries": 0}))
    await move_all(records, folder, moves)


def waits_for(folder: WatchedFolder, row: WatchedRow, file: SeenFile, clock: float) -> str:
    """Return which marker a file waits for that stands still; empty if it is there, or if there is none to be."""
    if not folder.rules.marker or file.marked or not folder.still.is_still(row.name, folder.rules.settle_s, clock):
        return ""
    return f"waits for {markers_of(row.name, folder.rules.marker)[0]}"


def may_read(folder: WatchedFolder, row: WatchedRow, clock: float) -> bool:
    """Whether a file is said to be complete: by its marker, or if there is none to be, by standing still."""
    if folder.rules.marker:
        return folder.found.files[row.name].marked
    return folder.still.is_still(row.name, folder.rules.settle_s, clock)


def missing_at(path: Path) -> str:
    """Return why a checkpoint is not complete; empty if it is."""
    found = inventory.at(path)
    try:
        for file in found.files:
            open_plain(file).close()
        if not found.size:
            return "it is empty"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return "" if is_whole(found) else "it is not complete, and does not change: was its copy interrupted?"


async def could_not_read(records: Records, folder: WatchedFolder, row: WatchedRow, reason: str, clock: float) -> None:
    """Note that a file is not complete, or cannot be read; it is tried again when it changes, too."""
    file = folder.found.files[row.name]
    columns = {"identity": file.identity, "modified_ns": file.modified_ns}
    await not_now(records, folder, row, reason, clock, max(PAUSE_S, folder.rules.settle_s), **columns)


async def have_hashed(
    records: Records, catalogue: NodeCatalogue, folder: WatchedFolder, rows: Sequence[WatchedRow], clock: float
) -> None:
    """Have the whole checkpoints hashed that are to be measured, and note what those are that are hashed, some at a
    time."""
    wanted: dict[Path, ReadyFile] = {}
    before, known = catalogue.ready_files.wanted.get(folder.row.id, {}), KnownContents.of(folder)
    noted = 0
    for row in rows:
        path = Path(folder.row.root) / row.name
        ready = ReadyFile(identity_key(row.identity), f"{folder.row.name}-{path.stem}")
        if failure := catalogue.ready_files.failed.pop(ready.identity, ""):
            await could_not_read(records, folder, row, failure, clock)
            continue
        if folder.retry_at.get((row.id, row.identity), 0.0) > clock:
            continue
        sha256, problem = "", ""
        if noted < FEW and (before.get(path) != ready or ready.identity in catalogue.ready_files.done):
            sha256, problem = await hashed_as(records.store, ready.identity)
        if sha256:
            noted += 1
            catalogue.ready_files.done.discard(ready.identity)
            await note_content(records, folder, row, sha256, problem, known)
            known.note(folder.rows[row.id])
        else:
            wanted[path] = ready
    catalogue.ready_files.want(folder.row.id, wanted)


@dataclass(slots=True)
class KnownContents:
    """What is known of the contents in a folder. `holders`: by sha256, see `WatchedFolder.holders`; `of_name`: by name
    and sha256, the newest row."""

    holders: dict[str, WatchedRow]
    of_name: dict[tuple[str, str], WatchedRow]

    @classmethod
    def of(cls, folder: WatchedFolder) -> "KnownContents":
        return cls(folder.holders(), {(row.name, row.sha256): row for row in folder.rows.values() if row.sha256})

    def note(self, row: WatchedRow) -> None:
        """Note what a checkpoint has turned out to be."""
        self.of_name[row.name, row.sha256] = row
        if row.state == "ready":
            self.holders[row.sha256] = row


async def note_content(
    records: Records, folder: WatchedFolder, row: WatchedRow, sha256: str, problem: str, known: KnownContents
) -> None:
    """Store the content of a checkpoint that is whole: it is ready, unless it is known already or no checkpoint."""
    columns: dict[str, Any] = {"sha256": sha256, "tries": 0}
    again, copied = known.of_name.get((row.name, sha256)), known.holders.get(sha256)
    if again is not None and again.id != row.id:
        await take_over(records, folder, row, again, **columns)
    elif problem:
        await move(records, folder, row, "parked", problem, finished=now(), **columns)
    elif copied is not None and copied.name != row.name and not row.wanted:
        columns |= {"left_out": "copy", "finished": now()}
        await move(records, folder, row, "superseded", f"it is a copy of {copied.name}", **columns)
    else:
        await move(records, folder, row, "ready", "", ready=now(), **columns)
