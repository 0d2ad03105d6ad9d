"""The store: everything the daemon knows, in a SQLite file or a PostgreSQL database. Only this package uses their
drivers."""

from rwkv_daemon.store.interface import (
    ConflictError,
    Store,
    StoreAwayError,
    StoreDamagedError,
    StoreError,
    StoreRow,
    Transaction,
)
from rwkv_daemon.store.opening import open_store
from rwkv_daemon.store.typed_rows import (
    AttemptRow,
    EngineRow,
    JobRow,
    NewJob,
    RecipeRow,
    SampleCounts,
    WatchedRow,
    WatchRow,
)

__all__ = [
    "AttemptRow",
    "ConflictError",
    "EngineRow",
    "JobRow",
    "NewJob",
    "RecipeRow",
    "SampleCounts",
    "Store",
    "StoreAwayError",
    "StoreDamagedError",
    "StoreError",
    "StoreRow",
    "Transaction",
    "WatchRow",
    "WatchedRow",
    "open_store",
]
