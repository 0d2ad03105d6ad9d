"""The store with its events, and the one way to change what it holds.

The store is the truth. Every change is a transaction that also stores its events; they are published after the commit,
and whoever keeps a part of the store in memory is told of it.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rwkv_daemon.changes import audit
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.event_bus import Bus
from rwkv_daemon.host import disk
from rwkv_daemon.store import Store
from rwkv_daemon.store.read_lanes import OwnLock
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.store.watched import Health
from rwkv_daemon.workers.run_directory import RunDir
from rwkvctl.settings.config import Config


class Watcher(Protocol):
    """Keeps a part of the store in memory."""

    def committed(self, change: Change) -> None:
        """Apply what a transaction has changed; called right after its commit."""

    def unsure(self) -> None:
        """Read everything again, since it is unknown whether a transaction has committed."""


@dataclass(slots=True)
class Records:
    """The store, its events and its health; the configuration; and the lock that is held while jobs are decided on."""

    config: Config
    store: Store
    health: Health = field(default_factory=Health)
    bus: Bus = field(default_factory=Bus)
    watchers: list[Watcher] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the supervisor should run a round."""

    up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the processes that an earlier daemon left running are adopted."""

    owner: OwnLock = field(default_factory=OwnLock)
    """Held while jobs are decided on: by the supervisor's round, or by a request that changes jobs."""

    notes: list[str] = field(default_factory=list)
    """Sentences that every status shows."""

    started: str = field(default_factory=now)
    started_monotonic: float = field(default_factory=time.monotonic)
    hostname: str = field(default_factory=socket.gethostname)

    @contextlib.asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """Run a transaction whose events are published after the commit. If it is unknown whether it has committed (the
        commit was interrupted), what is kept of the store in memory is read again."""
        sent = False
        try:
            async with self.store.write() as db:
                change = Change(db)
                yield change
                await audit.settle(db, change.events)
                sent = True
        except BaseException:
            if sent:
                for watcher in self.watchers:
                    watcher.unsure()
                self.wake.set()
            raise
        for watcher in self.watchers:
            watcher.committed(change)
        self.bus.publish(change.events)
        self.wake.set()

    def folder(self, job: int) -> RunDir:
        return RunDir(self.config.runs_dir / f"j{job}")

    def engine_folder(self, engine: int) -> Path:
        """Return the folder of an engine's log and record."""
        return self.config.runs_dir / "engines" / f"e{engine}"

    def disk_free_bytes(self) -> int:
        """Return the free bytes of the file system that holds the home."""
        return disk.free(self.config.home)

    @property
    def trouble(self) -> str:
        """Return why nothing can be stored now; empty if all is well."""
        return self.health.sentence
