"""Copying every row of this node's store into another database, completely and compared, or not at all."""

from pathlib import Path

from rwkv_daemon.store import Store, open_store
from rwkv_daemon.store.location import daemon_name, place_of, store_place
from rwkv_daemon.store.sqlite_files import remove
from rwkv_daemon.store.table_copy import copy_store, is_empty, tables
from rwkv_daemon.store_tools.offline import RefusedHereError, ToolResult, daemon_down, described
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings import store_url
from rwkvctl.settings.config import Config


async def migrate(settings: Config, *, to: str, from_: str) -> ToolResult:
    """Copy our store `to` another one, or another one (`from_`) into the home's file. Raises RwkvctlError, StoreError,
    CopyError."""
    source, target = ends(settings, to=to, from_=from_)
    if source == target:
        raise RwkvctlError(f"{described(source)} is where the store is already; nothing is to be moved.")
    with daemon_down(settings, "migrate"):
        if isinstance(source, Path) and not source.is_file():
            raise RwkvctlError(f"there is no store at {source}; nothing is to be moved.")
        new = isinstance(target, Path) and not target.exists()
        old = await open_store(source, daemon_name(settings))
        try:
            rows = await into(old, target, daemon_name(settings))
        except BaseException:
            if new and isinstance(target, Path):
                remove(target)
            raise
        finally:
            await old.close()
    setting = f'store = "{to}"' if to else "no `store`, or remove that setting"
    lines = [f"{sum(rows.values()):,} rows of {len(rows)} tables are in {described(target)}, compared one by one"]
    lines += [f"put `{setting}` into the configuration, then start the daemon; {described(source)} is as it was"]
    return ToolResult(lines, {"from": described(source), "to": described(target), "rows": rows})


def ends(settings: Config, *, to: str, from_: str) -> tuple[Path | str, Path | str]:
    """Return (source, target). Raises RwkvctlError if not exactly one of `to` and `from_` is given, or the one given
    names no store."""
    if bool(to) == bool(from_):
        raise RwkvctlError("say --to or --from: a URL without a password, or a file that holds one.")
    if to:
        return store_place(settings), place_of(store_url.checked(to, "--to"))
    return place_of(store_url.checked(from_, "--from")), settings.store


async def into(source: Store, place: Path | str, name: str) -> dict[str, int]:
    """Copy into an empty store; returns the rows of each table."""
    target = await open_store(place, name)
    try:
        for table in tables():
            if not await is_empty(target, table):
                raise RefusedHereError(f"{described(place)} holds rows already ({table.name}); give an empty database.")
        async with target.write() as db:
            return await copy_store(source, db)
    finally:
        await target.close()
