"""What the daemon holds in memory, and the one way to change what it holds on disk.

The store is the truth; the handles here (processes, rates) can all be found again after a restart. Every change is a
transaction that also stores the events it causes; they are published once it has committed.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiosqlite

from rwkv_daemon import events, lifecycle
from rwkv_daemon.catalogue import Benchmarks
from rwkv_daemon.clock import now
from rwkv_daemon.events import Bus
from rwkv_daemon.jobview import as_data
from rwkv_daemon.judge.service import JudgeService
from rwkv_daemon.placement import EngineKind
from rwkv_daemon.processes import ShimRecord, Worker
from rwkv_daemon.rundir import RunDir
from rwkv_daemon.store import EngineRow, JobRow, Store
from rwkv_daemon.store.jobs import update_job
from rwkvctl.config import Config
from rwkvctl.protocol.engine import EngineStats
from rwkvctl.protocol.messages import Event, LeaseView
from rwkvctl.protocol.states import TERMINAL, Reason

log = logging.getLogger("rwkvctl")


@dataclass(slots=True)
class EngineHandle:
    """A live engine process."""

    row: EngineRow
    worker: Worker
    stats: EngineStats | None = None
    idle_since: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.monotonic)
    last_seen: float = field(default_factory=time.monotonic)
    asked: float = 0.0
    exit: tuple[ShimRecord | None] | None = None
    beat: int = -1
    beat_at: float = field(default_factory=time.monotonic)

    @property
    def serves(self) -> EngineKind:
        return EngineKind(self.row.weights_sha256, self.row.numerics)


@dataclass(slots=True)
class RunnerHandle:
    """A live runner process, and how fast it gets on."""

    job: int
    attempt: int
    worker: Worker
    ingested: int = 0
    started: float = field(default_factory=time.monotonic)
    first_done: int | None = None
    stop_asked: float | None = None
    stop_rung: int = 0
    engine: int | None = None
    stages_before: int = 0
    regrades: bool = False
    exit: tuple[ShimRecord | None] | None = None

    def rate(self, done: int) -> float | None:
        """Samples a second since this daemon began to watch."""
        if self.first_done is None:
            self.first_done, self.started = done, time.monotonic()
        passed = time.monotonic() - self.started
        return (done - self.first_done) / passed if passed > 1 and done > self.first_done else None


@dataclass(slots=True)
class BackOff:
    """Failures in a row of one kind of engine, and when the next start may be."""

    failures: int = 0
    not_before: float = 0.0


@dataclass(slots=True)
class Node:
    """The daemon's memory."""

    config: Config
    store: Store
    benchmarks: Benchmarks
    bus: Bus = field(default_factory=Bus)
    engines: dict[int, EngineHandle] = field(default_factory=dict)
    runners: dict[int, RunnerHandle] = field(default_factory=dict)
    back_off: dict[EngineKind, BackOff] = field(default_factory=dict)
    retry_at: dict[int, float] = field(default_factory=dict)
    waiting_since: dict[int, float] = field(default_factory=dict)
    leases: list[LeaseView] | None = None
    notes: list[str] = field(default_factory=list)
    judge: JudgeService | None = None
    checker: JudgeService | None = None
    calibrations: dict[str, str] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    owner: asyncio.Lock = field(default_factory=asyncio.Lock)
    trouble: str = ""
    look_at_held: bool = False
    bad_rows: dict[int, tuple[object, ...]] = field(default_factory=dict)
    hold_when_ended: dict[int, tuple[Reason, str]] = field(default_factory=dict)
    stopping: bool = False
    started: str = field(default_factory=now)
    started_monotonic: float = field(default_factory=time.monotonic)
    hostname: str = field(default_factory=socket.gethostname)

    @contextlib.asynccontextmanager
    async def change(self) -> AsyncIterator["Change"]:
        """A transaction whose events are published when it has committed."""
        async with self.store.write() as db:
            change = Change(db)
            yield change
        self.bus.publish(change.events)
        self.wake.set()

    def folder(self, job: int) -> RunDir:
        """The run directory of a job."""
        return RunDir(self.config.runs_dir / f"j{job}")

    def engine_folder(self, engine: int) -> Path:
        """Where an engine's log and record lie."""
        return self.config.runs_dir / "engines" / f"e{engine}"

    def numerics(self, wanted: str) -> str:
        """The profile in force: `auto` is what engines on this node default to, which on the CPU is fp32."""
        profile = wanted or self.config.settings.numerics
        return "fp32" if profile == "auto" else profile

    def disk_free_bytes(self) -> int:
        """Room on the home's file system."""
        found = os.statvfs(self.config.home)
        return found.f_bavail * found.f_frsize

    @property
    def disk_low(self) -> bool:
        return self.disk_free_bytes() < self.config.settings.min_free_disk_bytes


@dataclass(slots=True)
class Change:
    """One transaction in progress."""

    db: aiosqlite.Connection
    events: list[Event] = field(default_factory=list)

    async def move(self, job: JobRow, happening: lifecycle.Happening, **columns: Any) -> JobRow:
        """Let something happen to a job, with other columns that change along; returns the job as it is then."""
        state = lifecycle.after(job.state, happening)
        columns = {"reason": "", "detail": ""} | columns
        if state in TERMINAL:
            columns |= {"finished": now()}
        await update_job(self.db, job.id, state=state, **columns)
        text = f"{job.model} {job.benchmark} {job.kind}: {state}"
        text += f" ({columns['detail'] or columns['reason']})" if columns["detail"] or columns["reason"] else ""
        moved = replace(job, state=state, **columns)
        data = as_data(moved)
        await self.note("job.state", job=job.name, session=job.session, text=text, data=data)
        return moved

    async def note(self, kind: str, **values: Any) -> None:
        """Store an event of any other kind."""
        event = await events.record(self.db, kind, **values)
        self.events.append(event)
        log.info("%s", event.text or kind)
