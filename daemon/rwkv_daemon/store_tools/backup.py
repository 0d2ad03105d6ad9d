"""A copy of the store as of one moment, while the daemon works: always one SQLite file, whatever holds the store."""

from pathlib import Path

from rwkv_daemon.store import open_store
from rwkv_daemon.store.location import store_place
from rwkv_daemon.store.sqlite_files import copy_file, jobs_in_file, new_file
from rwkv_daemon.store.table_copy import copy_store
from rwkv_daemon.store_tools.offline import RefusedHereError, ToolResult, as_owner, described
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings.config import Config


async def backup(settings: Config, target: Path) -> ToolResult:
    """Copy the store to a new SQLite file at `target`, and return what was copied. Raises RwkvctlError if there is no
    store or the file exists already, and OSError."""
    as_owner(settings, "backup")
    place = store_place(settings)
    if target.exists():
        raise RefusedHereError(f"{target} is there already; name another file, or remove it.")
    if isinstance(place, Path):
        if not place.is_file():
            raise RwkvctlError(f"there is no store at {place}; nothing is to be copied.")
        copy_file(place, target)
    else:
        await copy_database(place, target)
    jobs, size = jobs_in_file(target), target.stat().st_size
    text = f"{described(place)} is in {target}: {jobs:,} jobs, {size / 2**20:.1f} MiB"
    return ToolResult([text], {"file": str(target), "jobs": jobs, "bytes": size, "store": described(place)})


async def copy_database(url: str, target: Path) -> None:
    """Copy a PostgreSQL database to a SQLite file."""
    from rwkv_daemon.store.postgres import snapshot

    with new_file(target) as made:
        copy = await open_store(made)
        try:
            async with snapshot(url, "rwkvctl backup") as source, copy.write() as db:
                await copy_store(source, db)
        finally:
            await copy.close()
