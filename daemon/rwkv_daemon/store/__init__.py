"""The store: everything the daemon knows, in one SQLite file. SQLite is touched in this package only."""

from rwkv_daemon.store.connection import Store, StoreDamagedError, StoreError, open_store
from rwkv_daemon.store.rows import AttemptRow, EngineRow, JobRow, NewJob, SampleCounts

__all__ = [
    "AttemptRow",
    "EngineRow",
    "JobRow",
    "NewJob",
    "SampleCounts",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "open_store",
]
