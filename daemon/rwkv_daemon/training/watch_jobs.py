"""The jobs of watched checkpoints: queueing them, withdrawing those that have not begun, and noting when all are
over."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes import audit
from rwkv_daemon.changes.caller import caller
from rwkv_daemon.planning import planner
from rwkv_daemon.rules.plan import Pair, Plan, SelectionError
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import Store, Transaction, WatchedRow
from rwkv_daemon.store.queries.jobs import get_job
from rwkv_daemon.store.queries.training.watches import JobStand, is_name_of_another, job_stands, update_watched
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training.folders.watched_folder import LEFT_OUT, WatchedFolder
from rwkv_daemon.training.watch_moves import WatchedMove, move, move_in, not_now
from rwkv_daemon.training.watch_policy import WatchedCheckpoint, order_of
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl.protocol.requests import NamedCheckpoint, Selection
from rwkvctl.protocol.states import TERMINAL, WatchedState
from rwkvctl.text.quantities import several

NOT_BEGUN: Final = frozenset({"queued", "held"})
LACKS_WEIGHTS: Final = frozenset({"weights-missing", "weights-hashing", "weights-copying", "does-not-load"})
PAUSE_S: Final = 60
"""What cannot be queued is tried again after twice this time at the earliest."""
LONGEST_NAME: Final = 160


@dataclass(frozen=True, slots=True)
class JobStands:
    """Where the jobs of watched checkpoints stand, by number; those that are deleted are missing."""

    of: dict[int, JobStand]

    def have_begun(self, row: WatchedRow) -> bool:
        """Whether one of a checkpoint's jobs has begun."""
        return any(one.has_begun or one.state not in NOT_BEGUN for one in self._open_or_over(row))

    def waiting(self, row: WatchedRow) -> list[int]:
        """Return the jobs that the watch has queued for a checkpoint, and that have not begun."""
        return [number for number in row.own_job_numbers if number in self.of and self.of[number].state in NOT_BEGUN]

    def count_waiting(self, rows: Iterable[WatchedRow]) -> int:
        """Return how many jobs of checkpoints wait for their turn."""
        waiting = (self.of[number] for row in rows for number in self.waiting(row))
        return sum(one.reason not in LACKS_WEIGHTS for one in waiting)

    def lack_weights(self, row: WatchedRow) -> bool:
        """Whether all jobs of a checkpoint that are not over are held because its file is not there."""
        rest = [one for one in self._open_or_over(row) if one.state not in TERMINAL]
        return bool(rest) and all(one.state == "held" and one.reason in LACKS_WEIGHTS for one in rest)

    def result(self, row: WatchedRow) -> tuple[WatchedState, str] | None:
        """Return what becomes of a checkpoint when all of its jobs are over, and the reason; None while one is not."""
        states = [self.of[number].state if number in self.of else "deleted" for number in row.job_numbers]
        if any(state not in TERMINAL | {"deleted"} for state in states):
            return None
        others = {state: states.count(state) for state in sorted(states) if state != "done"}
        more = "".join(f", {count} {state}" for state, count in others.items())
        reason = f"{states.count('done')} of {several(len(states), 'job')} done{more}"
        return ("parked" if others else "done"), reason

    def _open_or_over(self, row: WatchedRow) -> list[JobStand]:
        return [self.of[number] for number in row.job_numbers if number in self.of]


async def stands_of(store: Store, rows: Iterable[WatchedRow]) -> JobStands:
    """Return where the jobs of some checkpoints stand."""
    return JobStands(await job_stands(store, sorted({number for row in rows for number in row.job_numbers})))


def candidates(folder: WatchedFolder, stands: JobStands) -> Iterator[WatchedCheckpoint]:
    """Yield the checkpoints of a folder that the policy looks at."""
    for row in folder.rows.values():
        order = order_of(row.name, row.step, row.modified_ns)
        if row.state == "done" or row.was_taken_up or (row.state == "dispatched" and stands.have_begun(row)):
            yield WatchedCheckpoint(row.id, order, "measured")
        elif (
            row.state in {"ready", "dispatched"}
            or (row.state == "settling" and row.whole == row.identity and folder.is_there(row))
            or (row.left_out == "newer" and folder.is_there(row))
        ):
            yield WatchedCheckpoint(row.id, order, "waits", is_wanted=bool(row.wanted))


async def end_measured(work: NodeWork, folder: WatchedFolder, stands: JobStands) -> None:
    """Note which checkpoints are measured: all of their jobs are over; or not any more, as such a job was resumed."""
    for row in with_jobs(folder):
        result = stands.result(row)
        note = f"; {row.reason[row.reason.find(LEFT_OUT) :]}" if LEFT_OUT in row.reason else ""
        if result is None and row.state == "parked":
            await move(work.records, folder, row, "dispatched", f"its jobs go on{note}", finished="")
        elif result is not None and row.reason != (reason := f"{result[1]}{note}"):
            await move(work.records, folder, row, result[0], reason, finished=now())


def with_jobs(folder: WatchedFolder) -> list[WatchedRow]:
    """Return the checkpoints whose jobs may still change what is said of them."""
    return [row for row in folder.in_state("dispatched", "parked") if row.job_numbers]


async def withdraw_gone(work: NodeWork, folder: WatchedFolder, stands: JobStands) -> None:
    """Stop the jobs of checkpoints that are gone, or whose name has other content by now, as far as these have not
    begun, or wait for their file."""
    current = folder.current()
    for row in folder.in_state("dispatched"):
        newest = current[row.name]
        replaced = newest.id != row.id and newest.state != "settling" and newest.sha256 != row.sha256
        if not replaced and not folder.found.is_gone(row.name):
            continue
        what = "written over" if replaced else "deleted"
        if not stands.have_begun(row):
            await withdraw(work, folder, row, "vanished", f"it was {what} before it was measured")
        elif stands.lack_weights(row):
            await withdraw(work, folder, row, "vanished", f"it was {what} while it was measured", begun=True)


async def queue(work: NodeWork, catalogue: NodeCatalogue, folder: WatchedFolder, row: WatchedRow, clock: float) -> None:
    """Queue the jobs of a checkpoint that is ready, as one session, in the transaction that stores that they are. What
    cannot be queued is tried again, then parked with the reason."""
    async with work.records.owner:
        selection = await selection_for(work.records.store, folder, row)
        if not planner.is_device_known(work.records, work.engines, selection.numerics):
            return
        try:
            plan = await planner.plan(work, catalogue, selection)
        except SelectionError as error:
            await not_now(work.records, folder, row, str(error), clock, PAUSE_S)
            return
        if any(pair.model.sha256 != row.sha256 for pair in plan.pairs):
            return  # its file was written over since the last look, and the next one sees it
        missed = [pair for pair in plan.pairs if pair.row.action == "skip" and not is_provided_for(pair)]
        left_out = left_out_kinds(plan, missed) if catalogue.benchmarks.names_benchmarks(selection) else ""
        if any(pair.row.action in {"run", "hold", "resume"} for pair in plan.pairs):
            await dispatch(work, catalogue, folder, row, selection, plan, left_out)
        elif len(missed) < len(plan.pairs):
            await note_provided_for(work, folder, row, plan, left_out)
        else:
            why = (
                hint_of(missed[0], missed[0].row.detail or missed[0].row.reason)
                if missed
                else "no benchmark is selected"
            )
            await not_now(work.records, folder, row, f"nothing can be queued: {why}", clock, PAUSE_S)


def is_provided_for(pair: Pair) -> bool:
    """Whether a pair needs no job of the watch: it has its score, or others have queued it."""
    return pair.row.reason in {"done", "queued", "held", "regrade"}


def left_out_kinds(plan: Plan, missed: list[Pair]) -> str:
    """Say what of the named benchmarks is not measured; empty if all is."""
    if not missed:
        return ""
    first = missed[0]
    why = first.row.detail or first.row.reason
    kinds = f"{len(missed)} of {several(len(plan.pairs), 'kind')}"
    return f"{LEFT_OUT}{kinds}: {first.kind.benchmark} {first.kind.kind}: {hint_of(first, why)}"


def hint_of(pair: Pair, why: str) -> str:
    """Return why a pair cannot be queued; a command that mends it is marked as one."""
    return f"its rows are missing: `{why}`" if pair.row.reason == "data-missing" and why.startswith("rwkvctl") else why


async def dispatch(
    work: NodeWork, catalogue: NodeCatalogue, folder: WatchedFolder, row: WatchedRow, selection: Selection, plan: Plan,
    reason: str,
) -> None:  # fmt: skip
    """Queue a plan for a checkpoint."""
    kept: list[WatchedRow] = []

    async def remember(db: Transaction, session: str, names: list[str]) -> None:
        columns: dict[str, Any] = {
            "state": "dispatched", "reason": reason, "session": session, "dispatched": now(), "finished": "",
            "model": plan.pairs[0].model.name, "tries": 0,
            "jobs": as_json(planner.jobs_of(plan, names)), "own_jobs": as_json([int(name[1:]) for name in names]),
        }  # fmt: skip
        await update_watched(db, row.id, **columns)
        data = {"watch": folder.row.called, "checkpoint": row.name}
        await audit.record(db, caller(), "watch", session, "done", data)
        kept.append(replace(row, **columns))

    session, jobs = await planner.dispatch(work, catalogue, selection, plan, remember)
    folder.rows[row.id] = kept[0]
    crash_point("watch-after-dispatch")
    async with work.records.change() as change:
        text = f"{folder.row.called}: {row.name} is dispatched: {several(len(jobs), 'new job')}"
        await change.note("watch", session=session, text=text)


async def note_provided_for(work: NodeWork, folder: WatchedFolder, row: WatchedRow, plan: Plan, note: str) -> None:
    """Note that a checkpoint needs no job of its own: all of its work is done or queued by others, but for what `note`
    says."""
    note = f"; {note}" if note else ""
    jobs = planner.jobs_of(plan, ())
    columns: dict[str, Any] = {"jobs": as_json(jobs), "own_jobs": "[]", "model": plan.pairs[0].model.name, "tries": 0}
    if all(pair.row.reason in {"done", "regrade"} for pair in plan.pairs if is_provided_for(pair)):
        await move(work.records, folder, row, "done", f"its scores were there already{note}", finished=now(), **columns)
    else:
        reason = f"its jobs were queued already{note}"
        await move(work.records, folder, row, "dispatched", reason, dispatched=now(), finished="", **columns)


async def withdraw(
    work: NodeWork, folder: WatchedFolder, row: WatchedRow, state: WatchedState, reason: str, *, begun: bool = False,
    **columns: Any,
) -> bool:  # fmt: skip
    """Stop the jobs that the watch has queued for a checkpoint, and note what has become of it; returns False if one
    has begun meanwhile. `begun`: those that have begun and wait are stopped, too."""
    moves = [WatchedMove(row, state, reason, {"finished": now()} | columns)]
    return await withdraw_all(work, folder, moves, begun=begun) is None


async def withdraw_all(
    work: NodeWork, folder: WatchedFolder, moves: Sequence[WatchedMove], *, begun: bool = False
) -> WatchedRow | None:
    """Stop the jobs of checkpoints that go into other states. Returns one of which a job has begun, if there is one:
    then nothing is changed."""
    async with work.records.owner:
        stands = await stands_of(work.records.store, [one.row for one in moves])
        for one in moves:
            if one.row.state == "dispatched" and stands.have_begun(one.row) and not begun:
                return one.row
        async with work.records.change() as change:
            moved = []
            for one in moves:
                for number in stands.waiting(one.row):
                    if (job := await get_job(work.records.store, number)) is not None:
                        await change.move(job, "stop", detail=f"{folder.row.called}: {one.reason}")
                moved.append(await move_in(change, folder, one))
        folder.rows |= {row.id: row for row in moved}
        return None


async def selection_for(store: Store, folder: WatchedFolder, row: WatchedRow) -> Selection:
    """Return what is measured of one checkpoint."""
    path = str(Path(folder.row.root) / row.name)
    named = NamedCheckpoint(path=path, name=await model_name(store, folder, row))
    return msgspec.structs.replace(folder.selection, checkpoints=(named,), priority=folder.rules.priority)


async def model_name(store: Store, folder: WatchedFolder, row: WatchedRow) -> str:
    """Return the name under which a checkpoint is measured: that of the watch and of the file, and if other weights
    were measured under that, the beginning of its sha256."""
    stem = row.name.removesuffix(".pth").removesuffix(".safetensors")
    plain = f"{folder.row.name}-{''.join(c if c.isalnum() or c in '._-' else '-' for c in stem)}"[:LONGEST_NAME]
    return f"{plain}-{row.sha256[:6]}" if await is_name_of_another(store, plain, row.sha256) else plain


def as_json(numbers: list[int]) -> str:
    return msgspec.json.encode(numbers).decode()
