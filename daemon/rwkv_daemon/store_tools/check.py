"""Checks all of the store while the daemon works: whether it is whole, and whether its references are valid."""

from pathlib import Path

from rwkv_daemon.store.location import store_place
from rwkv_daemon.store.queries.jobs import count_jobs
from rwkv_daemon.store.sqlite_files import problems_of
from rwkv_daemon.store_tools.offline import ToolResult, as_owner, described
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings.config import Config


async def check(settings: Config) -> ToolResult:
    """Return that the store is whole. Raises RwkvctlError with its problems, StoreError."""
    as_owner(settings, "doctor")
    place = store_place(settings)
    if isinstance(place, Path):
        problems = problems_of(place) if place.exists() else []
    else:
        from rwkv_daemon.store.postgres import snapshot

        async with snapshot(
            place, "rwkvctl doctor"
        ) as db:  # this checks that it is there and has our schema; the server does the rest
            await count_jobs(db)
        problems = []
    if problems:
        raise RwkvctlError(f"{described(place)} is damaged: {'; '.join(problems)}")
    return ToolResult([f"{described(place)} is whole"], {"store": described(place)})
