"""The task that looks at watched folders: finds checkpoints, has those hashed that are whole, queues their jobs, and
notes when these are over. What is in memory is what the store holds."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import StoreError, WatchRow
from rwkv_daemon.store.queries.training.watches import all_watches, update_watch, watched_of
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training import watch_jobs, watch_look
from rwkv_daemon.training.folders.answers import ANSWER_S, within
from rwkv_daemon.training.folders.root_scan import RootFiles, check_root, names_changed, scan
from rwkv_daemon.training.folders.watched_folder import WatchedFolder, Watches
from rwkv_daemon.training.watch_jobs import JobStands
from rwkv_daemon.training.watch_moves import WatchedMove, move_all
from rwkv_daemon.training.watch_policy import Decision, copies_without_original, decide
from rwkvctl.protocol.training.watches import WatchRules

LOOK_S: Final = 1.0
LONGEST_REST_S: Final = 30.0
SHARE: Final = 299
"""A look is followed by a pause of so many times its length, so that a large folder takes a third of a percent of a
core,"""
SHARE_OF_CHANGES: Final = 9
"""and of so many where names come and go."""
STORE_PAUSE_S: Final = 5.0


async def watch_forever(work: NodeWork, catalogue: NodeCatalogue, watches: Watches) -> None:
    """Look at every watched folder again and again, until cancelled."""
    while True:
        try:
            await look_at_all(work, catalogue, watches)
        except StoreError as error:
            log.error("watched folders have to wait: %s", error)
            watches.current = False  # whether the last change was stored is read from the store
            await asyncio.sleep(STORE_PAUSE_S)
        await wait(catalogue, watches)


async def wait(catalogue: NodeCatalogue, watches: Watches) -> None:
    """Wait until a folder is to be looked at, a file is hashed, or an operator has changed a watch."""
    moments = [
        min(folder.look_at, folder.check_at) if folder.row.state == "watching" else time.monotonic() + LOOK_S
        for folder in watches.folders.values()
    ]
    rest_s = max(0.05, min(moments, default=math.inf) - time.monotonic())
    waiting = [asyncio.ensure_future(one.wait()) for one in (watches.wake, catalogue.ready_files.hashed)]
    try:
        await asyncio.wait(waiting, timeout=min(rest_s, LONGEST_REST_S), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


async def look_at_all(work: NodeWork, catalogue: NodeCatalogue, watches: Watches) -> None:
    """Look at the folders whose time has come, and take their checkpoints as far as they can go. Raises StoreError."""
    hashed = catalogue.ready_files.hashed.is_set()
    watches.wake.clear()
    catalogue.ready_files.hashed.clear()
    for number in list(await known(work.records, catalogue, watches)):
        if (seen := watches.folders.get(number)) is None:
            continue
        due = seen.row.state == "watching" and await is_due(watches, seen)
        look = await look_into(watches, seen) if due else None
        async with watches.changing:
            if not watches.current:
                await load(work.records, catalogue, watches)
            folder = watches.folders.get(number)
            if folder is None:  # it was removed meanwhile
                continue
            if look is not None and folder.row.state == "watching":
                await note_look(work.records, folder, look)
            if hashed:
                folder.followed_as_of = -1
            followed_as_of = folder.followed_as_of
            await follow(work, catalogue, folder)
            has_news = folder.followed_as_of != followed_as_of
            if has_news and any(row.needs_feedback for row in folder.in_state("done", "parked")):
                watches.measured.set()


async def known(records: Records, catalogue: NodeCatalogue, watches: Watches) -> dict[int, WatchedFolder]:
    """Return the watches by number, which are read first if an operator has changed one. Raises StoreError."""
    if not watches.current:
        async with watches.changing:
            if not watches.current:
                await load(records, catalogue, watches)
    return watches.folders


async def load(records: Records, catalogue: NodeCatalogue, watches: Watches) -> None:
    """Read all watches and their checkpoints from the store; what the last looks have found is kept."""
    found = {
        row.id: WatchedFolder.of(row, await watched_of(records.store, row.id))
        for row in await all_watches(records.store)
    }
    for number in found.keys() & watches.folders.keys():
        new, former = found[number], watches.folders[number]
        new.still, new.found, new.is_readable = former.still, former.found, former.is_readable
        new.retry_at = {key: at for key, at in former.retry_at.items() if key[0] in new.rows}
    watching = {number for number, one in found.items() if one.row.state == "watching"}
    for number in catalogue.ready_files.wanted.keys() - watching:
        del catalogue.ready_files.wanted[number]
    for number, (inode, _) in list(watches.scans.items()):
        if number not in watching or inode != found[number].row.inode:
            del watches.scans[number]
    watches.folders, watches.current = found, True


async def is_due(watches: Watches, folder: WatchedFolder) -> bool:
    """Whether the time for a look at a folder has come, or a name in it came or went."""
    began = time.monotonic()
    if folder.look_at <= began:
        return True
    if folder.check_at > began or folder.row.id in watches.scans:
        return False
    changed = await within(ANSWER_S, names_changed, Path(folder.row.root), folder.found.folders)
    folder.check_at = after(began, SHARE)
    return changed is not False


def after(began: float, share: int, longest_s: float = math.inf) -> float:
    """Return when something that began then is done again: after a pause of so many times its length."""
    now_s = time.monotonic()
    return now_s + min(longest_s, max(LOOK_S, share * (now_s - began)))


@dataclass(frozen=True, slots=True)
class RootLook:
    """What a look has found, when it began, and why the folder, or one below it, could not be read. `found` is None if
    nothing could, which is no sign that the checkpoints are gone."""

    began: float
    found: RootFiles | None
    detail: str = ""


async def look_into(watches: Watches, folder: WatchedFolder) -> RootLook:
    """Read what is in a folder. If its file system does not answer, its next looks wait for the same answer."""
    began, row = time.monotonic(), folder.row
    _, scanning = watches.scans.pop(row.id, (0, None))
    patience_s = ANSWER_S if scanning is None else 0.0
    if scanning is None:
        scanning = asyncio.ensure_future(asyncio.to_thread(read_root, row, folder.rules))
    done, _ = await asyncio.wait([scanning], timeout=patience_s)
    if not done:
        watches.scans[row.id] = row.inode, scanning
        return RootLook(began, None, f"its file system has not answered for {ANSWER_S:g} seconds")
    try:
        found = scanning.result()
    except OSError as error:
        return RootLook(began, None, f"it cannot be read: {error.strerror or error}")
    unread = "".join(f"; {name} cannot be read: {why}" for name, why in list(found.unread.items())[:3])
    return RootLook(began, found, unread.removeprefix("; "))


def read_root(row: WatchRow, rules: WatchRules) -> RootFiles:
    """Return what is in a folder. Raises OSError."""
    check_root(Path(row.root), row.inode)
    found = scan(Path(row.root), rules.match, rules.marker)
    check_root(Path(row.root), row.inode)
    return found


async def note_look(records: Records, folder: WatchedFolder, look: RootLook) -> None:
    """Store what a look has found."""
    if look.detail != folder.row.detail:
        async with records.change() as change:
            await update_watch(change.db, folder.row.id, detail=look.detail)
            said = look.detail or "it can be read again"
            await change.note("watch", text=f"{folder.row.called}: {folder.row.root}: {said}")
        folder.row = replace(folder.row, detail=look.detail)
    folder.is_readable = look.found is not None
    if look.found is not None:
        folder.found = look.found
        await watch_look.note_files(records, folder, look.began)
        await watch_look.find_whole(records, folder, look.began)
    settling = (row.name for row in folder.in_state("settling"))
    next_still = folder.still.next_still(settling, folder.rules.settle_s, look.began)
    folder.look_at = min(after(look.began, SHARE, LONGEST_REST_S), next_still)
    folder.check_at, folder.followed_as_of = after(look.began, SHARE_OF_CHANGES), -1


async def follow(work: NodeWork, catalogue: NodeCatalogue, folder: WatchedFolder) -> None:
    """Note which checkpoints are measured, leave out what the policy says, and hash and queue the others."""
    as_of = work.records.bus.last
    if folder.followed_as_of == as_of:
        return
    folder.followed_as_of = as_of
    stands = await watch_jobs.stands_of(work.records.store, watch_jobs.with_jobs(folder))
    await watch_jobs.end_measured(work, folder, stands)
    if folder.row.state == "watching" and folder.is_readable and folder.is_open():
        await watch_jobs.withdraw_gone(work, folder, stands)
        decision = decide(folder.rules.policy, folder.rules.every, watch_jobs.candidates(folder, stands))
        await leave_out(work, folder, decision)
        await take_up_again(work.records, folder, decision)
        await go_on(work, catalogue, folder, decision, stands)
    else:
        catalogue.ready_files.want(folder.row.id, {})
    if work.records.bus.last != as_of:
        folder.check_at = time.monotonic()  # more may follow from that


async def leave_out(work: NodeWork, folder: WatchedFolder, decision: Decision) -> None:
    """Leave out what the policy says; the jobs of these that have not begun are stopped."""
    moves = list[WatchedMove]()
    for number, (left_out, reason) in decision.superseded.items():
        row = folder.rows[number]
        if row.state == "dispatched":
            await watch_jobs.withdraw(work, folder, row, "superseded", reason, left_out=left_out)
        elif row.state != "superseded":
            moves.append(WatchedMove(row, "superseded", reason, {"left_out": left_out, "finished": now()}))
    await move_all(work.records, folder, moves)


async def take_up_again(records: Records, folder: WatchedFolder, decision: Decision) -> None:
    """Take up checkpoints that gave way to one which is gone by now, and copies of such."""
    numbers = [number for number in decision.measure if folder.rows[number].state == "superseded"]
    copies = [row for row in folder.in_state("superseded") if row.left_out == "copy" and folder.is_there(row)]
    numbers += copies_without_original({row.id: row.sha256 for row in copies}, folder.holders())
    columns = {"left_out": "", "finished": ""}
    moves = [
        WatchedMove(row, "ready", "", columns | {"ready": row.ready or now()})
        if row.sha256
        else WatchedMove(row, "settling", "", columns)
        for row in map(folder.rows.__getitem__, numbers)
    ]
    await move_all(records, folder, moves)


async def go_on(
    work: NodeWork, catalogue: NodeCatalogue, folder: WatchedFolder, decision: Decision, stands: JobStands
) -> None:
    """Hash those of the checkpoints to be measured that are not known, and queue the first that is ready."""
    clock = time.monotonic()
    to_measure = [row for row in map(folder.rows.__getitem__, decision.measure) if folder.is_as_seen(row)]
    whole = [row for row in to_measure if row.state == "settling"]
    whole.sort(key=lambda row: row.step is None)  # of two with one content, the one whose name says a step counts
    await watch_look.have_hashed(work.records, catalogue, folder, whole, clock)
    ready = (row for row in to_measure if row.state == "ready")
    first = next((row for row in ready if folder.retry_at.get((row.id, row.identity), 0.0) <= clock), None)
    most = folder.rules.most_waiting
    has_room = not most or stands.count_waiting(folder.in_state("dispatched")) < most
    if first is not None and has_room and await within(ANSWER_S, is_there, Path(folder.row.root) / first.name):
        await watch_jobs.queue(work, catalogue, folder, first, clock)


def is_there(path: Path) -> bool:
    return path.exists()


@contextlib.asynccontextmanager
async def changing(
    work: NodeWork, catalogue: NodeCatalogue, watches: Watches
) -> AsyncIterator[dict[int, WatchedFolder]]:
    """Change watches in the block, which gets them by number: no look is stored meanwhile, and the next one begins at
    once. Raises StoreError."""
    async with watches.changing:
        if not watches.current:
            await load(work.records, catalogue, watches)
        watches.current = False
        try:
            yield watches.folders
            await load(work.records, catalogue, watches)
        finally:
            for folder in watches.folders.values():
                folder.look_at = 0.0
            watches.wake.set()
