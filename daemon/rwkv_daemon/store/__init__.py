"""The store: everything the daemon knows, in a SQLite file or a PostgreSQL database. Their drivers are used in this
package only."""

from rwkv_daemon.store.interface import (
    ConflictError,
    Row,
    Store,
    StoreAwayError,
    StoreDamagedError,
    StoreError,
    Transaction,
)
from rwkv_daemon.store.opening import open_store
from rwkv_daemon.store.typed_rows import AttemptRow, EngineRow, JobRow, NewJob, SampleCounts

__all__ = [
    "AttemptRow",
    "ConflictError",
    "EngineRow",
    "JobRow",
    "NewJob",
    "Row",
    "SampleCounts",
    "Store",
    "StoreAwayError",
    "StoreDamagedError",
    "StoreError",
    "Transaction",
    "open_store",
]
