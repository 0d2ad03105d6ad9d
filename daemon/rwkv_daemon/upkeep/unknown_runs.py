"""Run directories that the store does not know: of an earlier store, or younger than the backup it was restored from.

The store numbers jobs and engines, so a new job could get the folder of another one. Unknown folders are set aside, and
whatever still runs in them is ended: nothing would ever read what it writes.
"""

from collections.abc import Iterable
from pathlib import Path

from rwkv_daemon.changes.records import Records
from rwkv_daemon.store.queries.engines import engine_numbers
from rwkv_daemon.store.queries.jobs import job_numbers
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers import worker_process


async def set_aside(records: Records) -> None:
    """Move unknown folders beside the runs folder, and report it."""
    runs = records.config.runs_dir
    jobs, engines = await job_numbers(records.store), await engine_numbers(records.store)
    strange = [*unknown(runs.glob("j*"), jobs), *unknown(runs.glob("engines/e*"), engines)]
    if not strange:
        return
    aside = runs.with_name(f"runs.before-{now().replace(':', '')}")
    for folder in strange:
        target = aside / folder.relative_to(runs)
        target.parent.mkdir(parents=True, exist_ok=True)
        worker_process.end_in(folder)
        folder.rename(target)
    async with records.change() as change:
        text = f"{len(strange)} run directories are of jobs and engines that the store does not know: now in {aside}"
        await change.note("store.strange-runs", text=text)


def unknown(folders: Iterable[Path], known: set[int]) -> list[Path]:
    """Return the folders that are named by a letter and a number that is not among the known ones."""
    return [folder for folder in folders if folder.name[1:].isdecimal() and int(folder.name[1:]) not in known]
