"""The daemon's store, which may be away: not open yet, not writable, or without an answer.

`look` alone decides on the health of the store, by querying it; an error in between only makes it look at once. While
the store is away every query fails at once instead of waiting. When it is back everything goes on; it is opened again
only if it was not open.
"""

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

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
from rwkv_daemon.store.processor_wait import waited_s
from rwkv_daemon.store.read_lanes import LateError
from rwkv_daemon.store.sqlite_read_only import ReadingStore, open_reading
from rwkv_daemon.store.wall_time import now, stamp

State = Literal["well", "read-only", "away"]

LOOK_S: Final = 0.25
AGAIN_S: Final = 1.0
"""Seconds between two attempts to open the store."""
ANSWER_S: Final = 1.2
"""How long the store may take to answer a probe."""
LATE: Final = 1.2
STARVED: Final = 0.2
PATIENCE: Final = 8
"""If this process itself was delayed (it was woken so much later, or waited for a processor for such a share of the
time), the store is given as much time again, up to so often: a busy machine is no broken store."""
CLOSE_S: Final = 5.0
ROOM_BYTES: Final = 1 << 20
"""What must be free beside a SQLite file: as much as is stored at once of what runners write."""

log = logging.getLogger("rwkvctl")


@dataclass(slots=True)
class Health:
    """The health of the store: `well`, `read-only` (it answers, and cannot be written) or `away`; why, and since when.
    `answered_at` is when (epoch) it last answered; `turned` is set, and replaced, with each change."""

    state: State = "well"
    why: str = ""
    since: str = field(default_factory=now)
    answered_at: float = 0.0
    turned: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def answered(self) -> str:
        """When it last answered, as wall time; empty if it never did."""
        return stamp(self.answered_at) if self.answered_at else ""

    @property
    def sentence(self) -> str:
        """Return the sentence for the operator; empty if all is well."""
        if self.state == "well":
            return ""
        what = "cannot be written" if self.state == "read-only" else "cannot be used"
        return f"the store {what} since {self.since[11:19]}: {self.why}"

    def be(self, state: State, why: str = "") -> None:
        """Set the state and its reason; a new state also sets `since` and wakes whoever waits for `turned`."""
        if (state, why) == (self.state, self.why):
            return
        if state != self.state:
            self.since, turned, self.turned = now(), self.turned, asyncio.Event()
            turned.set()
        before, self.state, self.why = self.why, state, why
        if state == "well" and before:
            log.warning("the store can be used again; what had to wait goes on")
        elif state != "well":
            log.error("%s; nothing new is started, what runs goes on", self.sentence)


@dataclass(slots=True)
class WatchedStore:
    """A `Store` at a place; `name` is the daemon's name there. `doubt` is set when the health should be checked."""

    place: Path | str
    name: str
    health: Health = field(default_factory=lambda: Health("away"))
    inner: Store | None = None
    doubt: asyncio.Event = field(default_factory=asyncio.Event)
    refused: str = ""
    """Why the last change could not be stored, until one can be."""
    begun: set[object] = field(default_factory=set)
    """Queries in progress. One that is still in progress at the next check puts the store in doubt."""
    asking: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Probes in progress, by name."""

    async def open(self) -> None:
        """Open it; read-only if it cannot be written, not at all if it is away. Raises StoreDamagedError if it cannot
        be used as it is."""
        try:
            self.inner = await open_store(self.place, self.name)
            await self._commit_something()
        except StoreAwayError as error:
            await self._read(error.why)
        except StoreError as error:
            await self._read(str(error))
        else:
            self.refused = self._lack()
            self._be("read-only" if self.refused else "well", self.refused)

    async def _read(self, why: str) -> None:
        """Continue with reading only. A server is read over the same connections, a file is opened again."""
        if isinstance(self.place, Path):
            if self.inner is not None:
                await self.inner.close()
            why = self._lack() or why
            self.inner = await open_reading(self.place, why)
        self.refused = why
        self._be("read-only" if self.inner else "away", why)

    async def watch(self) -> None:
        """Check the health whenever there is a doubt, and while the store is not well; until cancelled."""
        while True:
            before = set(self.begun)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self.doubt.wait()
            late = not before.isdisjoint(self.begun)
            if self.doubt.is_set() or late or self.health.state != "well":
                self.doubt.clear()
                await self.look()
                if self.inner is None or isinstance(self.inner, ReadingStore):
                    await asyncio.sleep(AGAIN_S)

    async def look(self) -> None:
        """Check the store and set its health: open it if it is not open, else query it and, after a refused change, try
        to write."""
        if self.inner is None or (isinstance(self.inner, ReadingStore) and not lack_of_room(self.inner.path)):
            await self._open_again()
        elif (why := await self._asked("probe", self.inner.probe)) != "":
            self._be("away", "it does not answer" if why is None else why)
        elif isinstance(self.inner, ReadingStore):
            self._be("read-only", self.inner.why)
        elif not self.refused:
            self._be("well")
        elif (why := await self._asked("trial", self._try_to_write)) is not None:  # else a long change is in progress
            self.refused = why
            self._be("read-only" if why else "well", why)

    async def _open_again(self) -> None:
        """Try to open the store. A damaged store ends the daemon at the start; later it is only reported."""
        if isinstance(self.inner, ReadingStore):
            reading, self.inner = self.inner, None
            await reading.close()
        try:
            await self.open()
        except StoreDamagedError as error:
            self._be("away", str(error))

    async def _asked(self, name: str, ask: Callable[[], Coroutine[None, None, None]]) -> str | None:
        """Return the store's error from a probe, or None without an answer in time. A probe without an answer is not
        repeated: its answer is waited for."""
        task = self.asking.get(name) or asyncio.ensure_future(ask())
        self.asking[name] = task
        for _ in range(PATIENCE):
            asked, waited = time.monotonic(), waited_s()
            await asyncio.wait({task}, timeout=ANSWER_S)
            delayed = time.monotonic() - asked > LATE * ANSWER_S or waited_s() - waited > STARVED * ANSWER_S
            if task.done() or not delayed:
                break
        if not task.done():
            return None
        del self.asking[name]
        error = task.exception()
        if error is not None and not isinstance(error, StoreError):
            raise error
        return str(error or "")

    async def _try_to_write(self) -> None:
        """Try a write. A small change often finds room where a large one does not, so the free space is checked,
        too."""
        if lack := self._lack():
            raise StoreError(lack)
        await self._commit_something()

    def _lack(self) -> str:
        """Return what keeps the file from growing; empty if nothing does, or for a database server."""
        lack = lack_of_room(self.place) if isinstance(self.place, Path) else ""
        return f"{self.place}: {lack}" if lack else ""

    async def _commit_something(self) -> None:
        """Commit a transaction that changes no data but has to be written."""
        assert self.inner is not None
        async with self.inner.write() as db:
            await db.execute("UPDATE migration SET at = at")

    def _be(self, state: State, why: str = "") -> None:
        if state != "away":
            self.health.answered_at = time.time()
        self.health.be(state, why)

    @contextlib.contextmanager
    def _asking(self, *, writes: bool = False) -> Iterator[Store]:
        """Yield the store for a query. Raises StoreError at once while it is away."""
        if self.inner is None or self.health.state == "away":
            raise StoreError(self.health.why)
        mark = object()
        self.begun.add(mark)
        try:
            yield self.inner
            self.health.answered_at = time.time()
        except (ConflictError, LateError):
            raise
        except StoreError as error:
            self.refused = str(error) if writes else self.refused
            self.doubt.set()
            raise
        finally:
            self.begun.discard(mark)

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        with self._asking(writes=True) as inner:
            async with inner.write() as db:
                yield db
        if self.refused:  # a change was stored now
            self.doubt.set()

    async def one(self, sql: str, parameters: Sequence[Any] = ()) -> StoreRow | None:
        with self._asking() as inner:
            return await inner.one(sql, parameters)

    async def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[StoreRow]:
        with self._asking() as inner:
            return await inner.all(sql, parameters)

    @property
    def checked(self) -> bool:
        return self.inner is None or self.inner.checked

    async def damage(self) -> str:
        with self._asking() as inner:
            return await inner.damage()

    async def probe(self) -> None:
        with self._asking() as inner:
            await inner.probe()

    def cut(self) -> None:
        """Let everything fail that still waits for a store that does not answer."""
        if self.inner is not None and self.health.state == "away":
            self.inner.cut()

    async def close(self) -> None:
        for task in self.asking.values():
            task.cancel()
        if self.inner is not None:
            await within(self.inner.close(), CLOSE_S)


async def within(what: Awaitable[None], seconds: float) -> None:
    """Wait for something for a limited time; if it has not ended by then, it goes on without being waited for."""
    await asyncio.wait({asyncio.ensure_future(what)}, timeout=seconds)


def lack_of_room(path: Path) -> str:
    """Return why no file can be written beside this one; empty if one can."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return ""
