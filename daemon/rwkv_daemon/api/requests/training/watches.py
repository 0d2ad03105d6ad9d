"""Answers about watched folders: adding one, changing it, and what became of the checkpoints in it."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from rwkv_daemon.api.requests.training.baselines import scored_name
from rwkv_daemon.catalogue import contents
from rwkv_daemon.changes.caller import caller
from rwkv_daemon.host.shown_files import is_trusted
from rwkv_daemon.node import Node
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.store import WatchedRow, WatchRow
from rwkv_daemon.store.queries.training.baselines import set_pin
from rwkv_daemon.store.queries.training.watches import add_watch, forget_problem, remove_watch, update_watch
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training import watch_jobs, watch_task
from rwkv_daemon.training.checkpoint_step import step_of
from rwkv_daemon.training.folders.root_scan import RootFiles, identity_key, inode_of, scan
from rwkv_daemon.training.folders.watched_folder import WatchedFolder, watched_view
from rwkv_daemon.training.watch_moves import WatchedMove, move_in
from rwkv_daemon.training.watch_policy import StepOrder, WatchedCheckpoint, decide, order_of
from rwkv_weights.formats import shards
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import WatchedState
from rwkvctl.protocol.training.feedback import FeedbackRequest
from rwkvctl.protocol.training.watches import (
    WatchAdd,
    WatchChange,
    WatchedView,
    WatchesReply,
    WatchesRequest,
    WatchReply,
    WatchRequest,
    WatchRules,
    WatchView,
)
from rwkvctl.text.quantities import several

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NUMBER: Final = re.compile(r"w?([0-9]{1,17})")
SHOWN: Final = 20
"""Checkpoints in the reply to a change."""


HINTS: Final[Mapping[WatchedState, str]] = {
    "settling": "It is measured when it is complete.",
    "ready": "It is queued when there is room.",
    "dispatched": "`rwkvctl watch show` has its jobs; those that were stopped `rwkvctl resume` takes up again.",
    "done": "Its scores stay; `rwkvctl delete` deletes its jobs.",
    "vanished": "Its file is not there, or has other content.",
}
"""Why a checkpoint in a state can be neither left out nor tried again, or what does that."""


class FirstLook(NamedTuple):
    """A folder that is to be watched, without links in its path, what is in it, and how many others match no
    pattern."""

    root: Path
    inode: int
    found: RootFiles
    others: int


async def add(node: Node, request: WatchAdd) -> WatchReply:
    """Answer `POST /v1/watches`. Raises RefusedError if the folder cannot be watched, or the selection is invalid."""
    check_rules(request.rules)
    notes = check_selection(node, request.selection)
    baseline = await scored_name(node, request.baseline) if request.baseline else ""
    look = await asyncio.to_thread(first_look, node, request)
    name = request.name or look.root.name
    if not NAME.fullmatch(name) or NUMBER.fullmatch(name):
        text = f"{name or look.root!s} cannot begin the names of models: use letters, digits, dots and dashes."
        raise RefusedError("bad-request", text, "--name gives another name, which is no bare number.", Exit.USAGE)
    values: dict[str, Any] = {
        "name": name, "root": str(look.root), "inode": look.inode, "state": "watching", "who": caller().name,
        "created": now(), "rules": msgspec.json.encode(request.rules).decode(),
        "selection": msgspec.json.encode(request.selection).decode(),
    }  # fmt: skip
    if baseline:
        notes = (f"The scores of {name}-… are compared with those of {baseline}.", *notes)
    if request.check:
        return first_reply(WatchRow(id=0, detail="", **values), request.rules, look, notes)
    async with watch_task.changing(node.work, node.catalogue, node.watches) as folders:
        for folder in folders.values():
            if folder.row.name == name:
                text = f"{folder.row.called} is called {name}; it watches {folder.row.root}."
                raise RefusedError("watched-already", text, "--name gives this one another name.", Exit.REFUSED)
        async with node.records.change() as change:
            row = await add_watch(change.db, values)
            if baseline:
                await set_pin(change.db, f"{name}-*", baseline, caller().name)
            await change.note("watch", text=f"{row.called}: {look.root} is watched")
        return first_reply(row, request.rules, look, notes)


def first_reply(row: WatchRow, rules: WatchRules, look: FirstLook, notes: tuple[str, ...]) -> WatchReply:
    """Return a watch with the checkpoints that its folder holds now, the last step first, and what becomes of each if
    it is complete. Nothing of them is stored yet."""
    seen = sorted(
        (order_of(name, step_of(name, rules.step), file.modified_ns) for name, file in look.found.files.items()),
        reverse=True,
    )
    waiting = [WatchedCheckpoint(number, order, "waits") for number, order in enumerate(seen)]
    superseded = decide(rules.policy, rules.every, waiting).superseded
    items = [
        WatchedView(
            id=0, name=order.name, step=None if order.step < 0 else order.step,
            state="superseded" if number in superseded else "settling",
            left_out=superseded[number].left_out if number in superseded else "",
            reason=superseded[number].reason if number in superseded else "",
        )
        for number, order in enumerate(seen)
    ]  # fmt: skip
    counts = dict(Counter(item.state for item in items))
    watch = msgspec.structs.replace(view(WatchedFolder.of(row, ())), counts=counts)
    more = (f"{several(len(items) - SHOWN, 'more checkpoint')} not shown.",) if len(items) > SHOWN else ()
    others = (f"{several(look.others, 'other checkpoint')} not matched by --match.",) if look.others else ()
    return WatchReply(watch=watch, items=tuple(items[:SHOWN]), notes=(*more, *others, *notes))


def check_rules(rules: WatchRules) -> None:
    """Raise RefusedError for rules that could match nothing."""
    for flag, pattern in (("--marker", rules.marker), ("--step", rules.step)):
        if pattern and (pattern.count("{}") != 1 or pattern == "{}"):
            text = f"{flag} {pattern}: it needs one {{}}, and something beside it."
            raise RefusedError("bad-request", text, "", Exit.USAGE)
    if "" in rules.match:
        raise RefusedError("bad-request", "--match: an empty pattern matches nothing.", "", Exit.USAGE)
    if "/" in rules.marker and not rules.marker.startswith("{}/"):
        text = "--marker: the file has to lie beside the checkpoint, or as {}/NAME in its folder."
        raise RefusedError("bad-request", text, "", Exit.USAGE)


def check_selection(node: Node, selection: Selection) -> tuple[str, ...]:
    """Return what of the named benchmarks cannot be measured yet. Raises RefusedError if a selection names models, or
    nothing that could be measured."""
    others = (
        "models", "model_regex", "checkpoints", "files", "min_param_b", "max_param_b", "run_log_dir", "priority",
        "harness",
    )  # fmt: skip
    if any(getattr(selection, name) for name in others) or selection.model_select != "all":
        text = (
            "A watch measures the checkpoints of its folder on benchmarks: its selection names no models, log folder, "
            "priority or harness."
        )
        raise RefusedError("bad-selection", text, "The rules of a watch have the priority.", Exit.USAGE)
    try:
        kinds = contents.kind_facts(selection, node.catalogue.benchmarks)
    except SelectionError as error:
        raise RefusedError("bad-selection", str(error), "", Exit.USAGE) from error
    if not kinds:
        hint = "`rwkvctl benchmarks` lists them."
        raise RefusedError("nothing-matches", "No benchmark matches the filters.", hint, Exit.REFUSED)
    if not node.catalogue.benchmarks.names_benchmarks(selection) or selection.hold_missing:
        return ()
    problems = {
        f"Not measured: {kind.benchmark} {kind.kind}: {kind.rows_problem}." for kind in kinds if kind.rows_problem
    }
    if missing := sorted({kind.benchmark for kind in kinds if kind.rows is None and not kind.rows_problem}):
        names = " ".join(missing)
        problems.add(f"No rows, so not measured: {names}. `rwkvctl data prepare {names}` fetches them.")
    return tuple(sorted(problems))


def first_look(node: Node, request: WatchAdd) -> FirstLook:
    """Look into a folder. Raises RefusedError if it cannot be read, or is not to be: the daemon may read more than who
    asks."""
    if "\0" in request.root or not request.root.startswith("/"):
        raise RefusedError("bad-request", f"{request.root!r} is no absolute path.", "", Exit.USAGE)
    root = Path(os.path.realpath(request.root))
    weights = Path(os.path.realpath(node.records.config.weights_dir))
    if not root.is_relative_to(weights) and not is_trusted(caller().uid):
        text = (
            f"{request.root} cannot be watched: only the user that runs the daemon, and root, may have it read folders."
        )
        raise RefusedError("role", text, f"Every operator can watch a folder below {weights}.", Exit.REFUSED)
    try:
        if shards.is_layout(root):
            text = f"{request.root} is one checkpoint in the Hugging Face layout."
            raise RefusedError("bad-request", text, "Watch the folder above it.", Exit.USAGE)
        found = scan(root, request.rules.match, request.rules.marker)
        others = len(scan(root, (), "").files) - len(found.files)
        return FirstLook(root, inode_of(root), found, others)
    except OSError as error:
        text = f"{request.root} cannot be read: {error.strerror or error}."
        raise RefusedError("no-such-folder", text, "", Exit.NOT_FOUND) from error


async def list_watches(node: Node, _request: WatchesRequest) -> WatchesReply:
    """Answer `GET /v1/watches`: every watched folder, the oldest first."""
    folders = await watch_task.known(node.records, node.catalogue, node.watches)
    return WatchesReply(items=tuple(map(view, folders.values())))


async def one_watch(node: Node, request: WatchRequest) -> WatchReply:
    """Answer `GET /v1/watches/{watch}`: one folder with a page of its checkpoints, the last step first."""
    folders = await watch_task.known(node.records, node.catalogue, node.watches)
    folder = find(folders, request.watch)
    rows = [row for row in folder.rows.values() if request.state in {"", row.state} and is_meant(folder, row, request)]
    rows.sort(key=place_of, reverse=True)
    end = request.after + page_size(request.limit)
    return reply_of(folder, rows[request.after : end], following=end if len(rows) > end else 0)


def is_meant(folder: WatchedFolder, row: WatchedRow, request: WatchRequest | FeedbackRequest) -> bool:
    """Whether a request may mean a checkpoint: by its name, its path or that of its model, and by its step."""
    if request.checkpoint and request.checkpoint.removeprefix(f"{folder.row.root}/") not in {row.name, row.model}:
        return False
    return request.step < 0 or row.step == request.step


def place_of(row: WatchedRow) -> tuple[StepOrder, int]:
    """Return where a list has a checkpoint."""
    return order_of(row.name, row.step, row.modified_ns), row.id


async def change(node: Node, request: WatchChange) -> WatchReply:
    """Answer `POST /v1/watches/change`. Raises RefusedError if there is no such watch or checkpoint."""
    async with watch_task.changing(node.work, node.catalogue, node.watches) as folders:
        folder = find(folders, request.watch)
        names = tuple(dict.fromkeys(name.removeprefix(f"{folder.row.root}/") for name in request.checkpoints))
        match request.action:
            case "pause":
                await set_watch(node, folder, "it is paused", state="paused")
            case "resume":
                inode = await asyncio.to_thread(root_as_it_is, Path(folder.row.root))
                await set_watch(node, folder, "it is watched again", state="watching", inode=inode)
            case "remove":
                async with node.records.change() as changed:
                    await remove_watch(changed.db, folder.row.id)
                    text = f"{folder.row.called} is removed: {folder.row.root} is watched no more"
                    await changed.note("watch", text=text)
                return reply_of(folder, folder.in_state("dispatched"))
            case "retry":
                rows = chosen(folder, names, ("parked", "superseded", "done")) if names else folder.in_state("parked")
                await retry(node, folder, rows)
            case "skip":
                await skip(
                    node, folder, chosen(folder, names, ("settling", "ready", "dispatched", "parked", "superseded"))
                )
    folder = node.watches.folders[folder.row.id]
    return reply_of(folder, sorted(folder.rows.values(), key=place_of, reverse=True)[:SHOWN])


async def set_watch(node: Node, folder: WatchedFolder, said: str, **columns: str | int) -> None:
    """Store columns of a watch."""
    async with node.records.change() as changed:
        await update_watch(changed.db, folder.row.id, **columns)
        await changed.note("watch", text=f"{folder.row.called}: {said}")


def root_as_it_is(root: Path) -> int:
    """Return the inode of a folder as it is now. Raises RefusedError if it cannot be read, or is a link by now."""
    try:
        if Path(os.path.realpath(root)) != root:
            text = f"A link leads {root} to {os.path.realpath(root)}."
            raise RefusedError("no-such-folder", text, "Remove this watch, and add that folder.", Exit.REFUSED)
        return inode_of(root)
    except OSError as error:
        text = f"{root} cannot be read: {error.strerror or error}. Nothing was changed."
        raise RefusedError("no-such-folder", text, "", Exit.NOT_FOUND) from error


async def retry(node: Node, folder: WatchedFolder, rows: Sequence[WatchedRow]) -> None:
    """Have checkpoints measured that were parked or left out, whatever the policy says. What could not be read, or is
    no checkpoint, is read anew."""
    async with node.records.change() as changed:
        for row in rows:
            columns: dict[str, Any] = {
                "wanted": 1, "tries": 0, "left_out": "", "finished": "", "jobs": "[]", "own_jobs": "[]"
            }  # fmt: skip
            if row.sha256 and (row.ready or row.state == "superseded"):
                columns |= {"ready": row.ready or now()}
                await move_in(changed, folder, WatchedMove(row, "ready", "", columns))
            else:
                await forget_problem(changed.db, identity_key(row.identity))
                await move_in(changed, folder, WatchedMove(row, "settling", "", columns | {"sha256": ""}))
            folder.retry_at.pop((row.id, row.identity), None)


async def skip(node: Node, folder: WatchedFolder, rows: Sequence[WatchedRow]) -> None:
    """Leave checkpoints out. Raises RefusedError, and changes nothing, if one is being measured."""
    reason, columns = f"left out by {caller().name}", {"left_out": "skipped", "wanted": 0, "finished": now()}
    moves = [WatchedMove(row, "superseded", reason, columns) for row in rows]
    if (begun := await watch_jobs.withdraw_all(node.work, folder, moves)) is not None:
        text = f"{begun.name} is being measured. Nothing was changed."
        jobs = " ".join(f"j{number}" for number in begun.job_numbers)
        raise RefusedError("is-running", text, f"`rwkvctl stop {jobs}` stops that.", Exit.REFUSED)


def find(folders: dict[int, WatchedFolder], name: str) -> WatchedFolder:
    """Return a watch by its number (`w1`, 1) or the name of its models. Raises RefusedError if there is none."""
    if (number := NUMBER.fullmatch(name)) and int(number[1]) in folders:
        return folders[int(number[1])]
    for folder in folders.values():
        if folder.row.name == name:
            return folder
    text = f"There is no watch {name}."
    raise RefusedError("no-such-watch", text, "`rwkvctl watch` lists them.", Exit.NOT_FOUND)


def chosen(folder: WatchedFolder, names: tuple[str, ...], states: tuple[str, ...]) -> list[WatchedRow]:
    """Return the newest contents of these names. Raises RefusedError unless each is in one of the states."""
    current = folder.current()
    for name in names:
        row = current.get(name)
        if row is None:
            raise no_such_checkpoint(folder.row.called, name)
        if row.state not in states:
            text = f"{name} is {row.state}. Nothing was changed."
            raise RefusedError("watched-state", text, HINTS[row.state], Exit.REFUSED)
    return [current[name] for name in names]


def no_such_checkpoint(called: str, name: str) -> RefusedError:
    """Return the refusal for a checkpoint that a watch does not have."""
    hint = f"`rwkvctl watch show {called}` lists them."
    return RefusedError("no-such-checkpoint", f"{called} has no checkpoint {name}.", hint, Exit.NOT_FOUND)


def view(folder: WatchedFolder) -> WatchView:
    """Return a watch as lists have it."""
    row = folder.row
    return WatchView(
        watch=row.called, name=row.name, root=row.root, state=row.state, detail=row.detail,
        counts=dict(Counter(one.state for one in folder.rows.values())), rules=folder.rules,
        selection=folder.selection, who=row.who, created=row.created,
    )  # fmt: skip


def reply_of(folder: WatchedFolder, rows: Sequence[WatchedRow], *, following: int = 0) -> WatchReply:
    """Return a watch with some of its checkpoints."""
    return WatchReply(watch=view(folder), items=tuple(map(watched_view, rows)), next=following)
