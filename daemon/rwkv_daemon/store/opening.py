"""Opening the store, a SQLite file or a PostgreSQL database."""

from pathlib import Path

from rwkv_daemon.store.interface import Store, StoreDamagedError
from rwkv_daemon.store.sqlite_open import open_sqlite


async def open_store(where: Path | str, name: str = "rwkvctl") -> Store:
    """Open a SQLite file (a path) or a PostgreSQL database (a URL), creating or migrating it. `name` tells the server,
    and a second daemon, who has it. Raises StoreDamagedError if it cannot be used."""
    if isinstance(where, Path):
        return await open_sqlite(where)
    try:
        from rwkv_daemon.store.postgres import (
            open_postgres,
        )  # imported here, so that its driver is loaded only if it is used
    except ModuleNotFoundError as error:
        raise StoreDamagedError(f"{error.name} is not installed: pip install 'rwkvctl[postgres]'.") from error
    return await open_postgres(where, name)
