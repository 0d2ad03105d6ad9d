"""Deleting jobs, undeleting them, and removing them for good.

A deletion and its undoing change only rows of the store, in one transaction. A prune first stores which jobs are to go;
then a task removes each run directory and after it the rows. If the daemon is killed, the next one goes on.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, get_args

from rwkv_daemon.api.requests.job_control import (
    ANSWER_S,
    MOST_NAMED,
    changed,
    found_or_error,
    pieces,
    spelled,
    unchanged,
)
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.host.daemon_service import DaemonService
from rwkv_daemon.node import Node
from rwkv_daemon.rules.lifecycle import Transition, allows
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.queries.deletions import (
    bring_back,
    deleted_before,
    let_go,
    let_go_of,
    measured,
    numbers_in,
    put_away,
    remove_rows,
    state_before,
)
from rwkv_daemon.store.queries.recipes.rewriting import rewritings_of
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl.protocol.deletion import LossReply, LossRequest, PruneRequest, UndeleteRequest
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import ChangedReply
from rwkvctl.protocol.states import TERMINAL, Deletable
from rwkvctl.protocol.views import ChangedJob
from rwkvctl.settings.folder_trees import files_below, remove_tree

LOOK_S: Final = 30.0
"""Seconds between two checks for jobs to remove when no prune asks, and after one that failed."""
DELETABLE: Final[tuple[str, ...]] = get_args(Deletable)


async def loss(records: Records, running: RunningJobs, request: LossRequest) -> LossReply:
    """Return what a deletion would remove, and which jobs cannot be deleted. Raises RefusedError for a state whose jobs
    run."""
    refused: list[ChangedJob] = []
    if request.deleted_before:
        names = await deleted_before(records.store, request.deleted_before)
    elif request.state:
        check_state(request.state)
        names = [f"j{number}" for number in await numbers_in(records.store, request.state)]
    else:
        found = [await found_or_error(records, name) for name in dict.fromkeys(map(spelled, request.jobs))]
        judged = [(job, refusal(running, job) if isinstance(job, JobRow) else job) for job in found]
        refused = [why for _, why in judged if why is not None]
        names = [job.name for job, why in judged if why is None and isinstance(job, JobRow)]
    numbers = [int(name[1:]) for name in names]
    samples, scores = await measured(records.store, numbers)
    taken = await asyncio.to_thread(bytes_of, [records.folder(number).path for number in numbers])
    named = names[:MOST_NAMED] if request.state else names
    return LossReply(
        jobs=tuple(named), samples=samples, scores=scores, bytes=taken, refused=tuple(refused),
        more=len(names) - len(named),
    )  # fmt: skip


def check_state(state: str) -> None:
    """Raises RefusedError if jobs in this state cannot be deleted because they run."""
    if state not in DELETABLE:
        text = f"Jobs that are {state} are not deleted; stop them first."
        raise RefusedError("bad-request", text, f"It is one of {', '.join(DELETABLE)}.", Exit.USAGE)


def bytes_of(folders: Iterable[Path]) -> int:
    """Return the disk space of folders in bytes; a missing folder counts 0."""
    taken = 0
    for folder in folders:
        for entry in files_below(folder):
            with contextlib.suppress(OSError):
                taken += entry.stat(follow_symlinks=False).st_blocks * 512
    return taken


def refusal(running: RunningJobs, job: JobRow) -> ChangedJob | None:
    """Return why a job cannot be deleted; None if it can."""
    if allows(job.state, "delete") and job.id not in running.runners:
        return None
    doing = "its runner has not ended yet" if job.state in TERMINAL else f"it is {job.state}"
    return unchanged(job, f"{job.name} is not deleted: {doing}; `rwkvctl stop {job.name}` first")


async def delete_one(node: Node, change: Change, job: JobRow) -> ChangedJob:
    """Mark a job as deleted, in the caller's transaction; one that runs is left unchanged."""
    if (refused := refusal(node.running, job)) is not None:
        return refused
    await put_away(change.db, job)
    deleted = changed(await change.move(job, "delete"))
    crash_point("delete-before-commit")
    return deleted


async def undelete(records: Records, request: UndeleteRequest) -> ChangedReply:
    """Answer `POST /v1/undelete`: bring deleted jobs back, as done if they were done and as stopped otherwise."""
    items: list[ChangedJob] = []
    for some in pieces(request.jobs):
        async with records.owner, records.change() as change:
            items += [await undelete_one(records, change, name) for name in some]
    return ChangedReply(items=tuple(items))


async def undelete_one(records: Records, change: Change, name: str) -> ChangedJob:
    """Undelete a job. One that was not done comes back stopped, so that nothing starts to run because of it."""
    found = await deleted_job(records, name)
    if isinstance(found, ChangedJob):
        return found
    job, was = found
    transition: Transition = "undelete done" if was == "done" else "undelete"
    await bring_back(change.db, job.id)
    return changed(await change.move(job, transition, **({"finished": job.finished} if job.finished else {})))


async def deleted_job(records: Records, name: str) -> tuple[JobRow, str] | ChangedJob:
    """Return a deleted job with the state it had, or the error for a name that is no deleted job."""
    number = name.removeprefix("j")
    found = await state_before(records.store, int(number)) if number.isdecimal() and len(number) < 18 else None
    if found is not None:
        return found
    there = await found_or_error(records, name)
    return unchanged(there, "") if isinstance(there, JobRow) else there


async def prune(records: Records, service: DaemonService, request: PruneRequest) -> ChangedReply:
    """Answer `POST /v1/prune`: remove deleted jobs for good. The reply comes when they are gone, or at the deadline
    with those that are still being removed."""
    items: list[ChangedJob] = []
    for some in pieces(request.jobs):
        async with records.owner, records.change() as change:
            items += [await prune_one(records, change, name) for name in some]
    crash_point("prune-after-intent")
    service.prune.set()
    return ChangedReply(items=await removed(records, items))


async def prune_one(records: Records, change: Change, name: str) -> ChangedJob:
    found = await deleted_job(records, name)
    if isinstance(found, ChangedJob):
        why = f"{found.job} is not deleted; `rwkvctl delete {found.job}` comes first" if found.state else found.error
        return ChangedJob(job=found.job, state=found.state, changed=False, error=why)
    job, _ = found
    if needed := [one.name for one in await rewritings_of(records.store, job.id) if one.state != "done"]:
        why = f"{needed[0]} rewrites its samples and is not done: `rwkvctl delete {needed[0]}` comes first"
        return ChangedJob(job=job.name, state="deleted", changed=False, error=why)
    await let_go(change.db, job.id)
    text = f"{job.model} {job.benchmark} {job.kind}: removed for good"
    await change.note("job.pruned", job=job.name, session=job.session, text=text)
    return ChangedJob(job=job.name, state="deleted", changed=True)


async def removed(records: Records, items: Sequence[ChangedJob]) -> tuple[ChangedJob, ...]:
    """Wait until all jobs are removed; at the deadline, mark those that are not."""
    deadline = time.monotonic() + ANSWER_S
    mine = {item.job for item in items if item.changed}
    while (left := mine & {f"j{number}" for number in await let_go_of(records.store)}) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    still = "is being removed"
    return tuple(
        ChangedJob(job=item.job, state=item.state, changed=True, still=still) if item.job in left else item
        for item in items
    )


async def remove_forever(records: Records, service: DaemonService) -> None:
    """Remove pruned jobs until cancelled: first those that an earlier daemon left, then whenever a prune asks."""
    while True:
        service.prune.clear()
        for job in await let_go_of(records.store):
            try:
                await remove(records, job)
            except (OSError, StoreError) as error:
                log.error("j%d cannot be removed just now: %s", job, error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(service.prune.wait(), LOOK_S)


async def remove(records: Records, job: int) -> None:
    """Remove a job's files and then its rows, the row of the job last, so that an interrupted removal starts again
    here. Raises OSError."""
    folder = records.folder(job).path
    if await asyncio.to_thread(os.path.lexists, folder):
        await asyncio.to_thread(remove_tree, folder)
    crash_point("prune-after-files")
    more = True
    while more:
        async with records.store.write() as db:
            more = await remove_rows(db, job)
        crash_point("prune-after-rows")
