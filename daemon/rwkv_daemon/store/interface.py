"""The interface of a store for the rest of the daemon, whichever database holds it.

Queries are written once, in the SQL that SQLite and PostgreSQL share, with `?` for values. A row is read by column name
or by position.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from rwkvctl.protocol.errors import RwkvctlError


class StoreError(Exception):
    """The store cannot be read or written just now: the disk is full, the file is damaged, the server is gone. Nothing
    of the transaction is stored. Workers are never touched because of it."""


class ConflictError(StoreError):
    """What was to be stored contradicts what is there, so this one change is wrong. The store itself works."""


class StoreDamagedError(RwkvctlError):
    """The store cannot be used; the message says what to do. Nothing was changed."""


class StoreAwayError(StoreDamagedError):
    """The store cannot be opened now and may be later, without repair: there is no room, no server, no answer. `why` is
    what happened, without what to do."""

    def __init__(self, sentence: str, why: str) -> None:
        super().__init__(sentence)
        self.why = why


class StoreRow(Protocol):
    """A row of a query's result, indexed by column name or number."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def keys(self) -> Any: ...


class StoreReader(Protocol):
    """A store, or a transaction, that is only read. It raises StoreError."""

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        """Return all rows of a query."""


class Transaction(Protocol):
    """A transaction in progress. Every method raises StoreError."""

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement; returns how many rows it changed."""

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        """Return the first row of a query (or of `INSERT ... RETURNING`), or None. It sees what this transaction
        wrote."""

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        """Return all rows of a query."""

    async def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add many rows to a table as fast as the database can."""

    async def count_on(self, table: str, column: str) -> None:
        """Make the next number that the database assigns in a column higher than all present ones."""

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement once for each row of values, which may be generated on the way, in another thread."""


class Store(Protocol):
    """The open store. Every method raises StoreError."""

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """Run a transaction: committed at the end of the block, rolled back if it raises. One at a time."""

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        """Return the first row of a query, or None. Readers see what is committed and never wait for a writer."""

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        """Return all rows of a query."""

    @property
    def checked(self) -> bool:
        """Whether the whole store was checked when it was opened; if not, `damage` should be called."""

    async def damage(self) -> str:
        """Return what a check of all of it finds wrong; empty for nothing. Takes minutes with millions of samples."""

    async def probe(self) -> None:
        """Return once the store answers, on a connection of its own, so that long queries do not delay it."""

    def cut(self) -> None:
        """Wait for nothing any more: operations in progress fail, if they can be made to. Called before the process
        ends."""

    async def close(self) -> None:
        """Close it; what is committed stays."""
