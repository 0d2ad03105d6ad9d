"""Putting a backup in place of the store. The old store is set aside, and so are the runs that are younger than the
backup."""

import tempfile
from pathlib import Path

from rwkv_daemon.store import Store, open_store
from rwkv_daemon.store.location import daemon_name, store_place
from rwkv_daemon.store.queries.jobs import count_jobs, last_attempts
from rwkv_daemon.store.sqlite_files import copy_file, jobs_in_file, problem_of_file, set_aside
from rwkv_daemon.store.table_copy import copy_store, empty
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.store_tools.backup import copy_database
from rwkv_daemon.store_tools.offline import RefusedHereError, ToolResult, daemon_down, described, readable
from rwkv_daemon.workers import worker_process
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings.config import Config


async def restore(settings: Config, source: Path, *, sure: bool) -> ToolResult:
    """Put the backup in place. Raises RwkvctlError, OSError, StoreError."""
    readable(source)
    if problem := problem_of_file(source):
        raise RwkvctlError(f"{source} is no whole backup ({problem}); nothing was changed.")
    if jobs_in_file(source) is None:
        raise RwkvctlError(f"{source} is no backup of a store: it has no jobs; nothing was changed.")
    place = store_place(settings)
    with daemon_down(settings, "restore"):
        if isinstance(place, Path):
            aside, store = await into_file(place, source, sure=sure)
        else:
            aside, store = await into_database(settings, place, source, sure=sure)
        try:
            jobs = await count_jobs(store)
            worker_process.end_all(settings.runs_dir)
            younger = await set_younger_aside(settings, store)
        finally:
            await store.close()
    lines = [f"{described(place)} is what {source} holds: {jobs:,} jobs"]
    lines += [f"what was there is kept in {aside}"] if aside else []
    lines += [f"{younger} files of attempts that the backup does not know were set aside"] if younger else []
    lines += ["run directories of jobs that it does not know are set aside when the daemon starts"]
    return ToolResult(
        lines, {"store": described(place), "jobs": jobs, "set_aside": str(aside or ""), "younger": younger}
    )


def ask_first(place: Path | str, jobs: int | None, *, sure: bool) -> None:
    """Raise RefusedHereError if something would be lost and --yes was not given."""
    if jobs != 0 and not sure:
        held = f"{jobs:,} jobs" if jobs else "something that cannot be read"
        raise RefusedHereError(
            f"{described(place)} holds {held}. `rwkvctl restore --yes` sets that aside, and ends what still runs of it."
        )


async def into_file(place: Path, source: Path, *, sure: bool) -> tuple[Path | None, Store]:
    """Replace the store's file; returns the path of the old file, and the new store."""
    ask_first(place, jobs_in_file(place), sure=sure)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".restore-") as folder:
        ready = Path(folder) / "store.sqlite"
        copy_file(source, ready)
        await (await open_store(ready)).close()  # migrates an old backup, or refuses it, before anything is changed
        aside = set_aside(place, "before-restore") if place.exists() else None
        ready.rename(place)
    return aside, await open_store(place)


async def into_database(settings: Config, url: str, source: Path, *, sure: bool) -> tuple[Path | None, Store]:
    """Replace the rows of the database in one transaction; returns the copy of the old rows, and the store."""
    store = await open_store(url, daemon_name(settings))
    try:
        jobs = await count_jobs(store)
        ask_first(url, jobs, sure=sure)
        aside = settings.home / f"store.before-restore-{now().replace(':', '').replace('.', '')}.sqlite"
        if jobs:
            await copy_database(url, aside)
        with tempfile.TemporaryDirectory(dir=settings.home, prefix=".restore-") as folder:
            ready = Path(folder) / "store.sqlite"
            copy_file(source, ready)
            backup = await open_store(ready)
            try:
                async with store.write() as db:
                    await empty(db)
                    await copy_store(backup, db)
            finally:
                await backup.close()
    except BaseException:
        await store.close()
        raise
    return (aside if jobs else None), store


async def set_younger_aside(settings: Config, store: Store) -> int:
    """Move files of attempts that are younger than the backup out of the way: the next attempt gets the same number,
    and its samples would be appended to theirs. Returns how many."""
    aside, moved = settings.runs_dir.with_name(f"runs.before-{now().replace(':', '')}"), 0
    for job, attempt in (await last_attempts(store)).items():
        folder = settings.runs_dir / f"j{job}"
        for path in folder.glob("*-*") if folder.is_dir() else ():
            number = path.stem.rpartition("-")[2]
            if number.isdecimal() and int(number) > attempt:
                target = aside / folder.name / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)
                moved += 1
    return moved
