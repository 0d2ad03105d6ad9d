"""What the daemon holds in memory, and the one way to change what it holds on disk.

The store is the truth; the handles here (processes, rates) can all be found again after a restart. Every change is a
transaction that also stores the events it causes; they are published once it has committed.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rwkv_daemon.api.grants import Grants
from rwkv_daemon.api.last_known import Known
from rwkv_daemon.api.shared_status import SameStatus
from rwkv_daemon.catalogue.catalogue import Benchmarks
from rwkv_daemon.catalogue.regex_guard import Searches
from rwkv_daemon.changes import audit, events
from rwkv_daemon.changes.events import Bus
from rwkv_daemon.changes.job_view import as_data
from rwkv_daemon.clock import now
from rwkv_daemon.gpus.watch_state import Sight
from rwkv_daemon.gpus.zombies.process_tracker import Census
from rwkv_daemon.host import daemon_log, disk
from rwkv_daemon.host.loop_health import Pulse
from rwkv_daemon.host.sd_notify import Notifier
from rwkv_daemon.host.shown_files import ShownFiles
from rwkv_daemon.jobs.stall_detection import Motion
from rwkv_daemon.jobs.stop_ladder import Ladder
from rwkv_daemon.judge.dispatcher import JudgeEvent
from rwkv_daemon.judge.service import JudgeService
from rwkv_daemon.logs.tailer import Tails
from rwkv_daemon.notify.targets import Notifications
from rwkv_daemon.planning.held_scan import HeldLook
from rwkv_daemon.rules import lifecycle
from rwkv_daemon.rules.file_settling import Settling
from rwkv_daemon.rules.forecast import Forecast
from rwkv_daemon.rules.gpu_facts import Gpu
from rwkv_daemon.rules.job_pace import Pace
from rwkv_daemon.rules.outside_kills import Recent
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.rules.rate_estimate import Meter, Rates
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkv_daemon.samples.long_reads import Looks
from rwkv_daemon.scheduling import leases
from rwkv_daemon.scheduling.lease_memory import Leasing
from rwkv_daemon.scheduling.pauses import Pauses
from rwkv_daemon.scheduling.state_counts import Step, Tally
from rwkv_daemon.scheduling.waiting_jobs import Queue
from rwkv_daemon.store import EngineRow, JobRow, Store, Transaction
from rwkv_daemon.store.queries.bulk import Order
from rwkv_daemon.store.queries.jobs import update_job
from rwkv_daemon.store.read_lanes import OwnLock
from rwkv_daemon.store.watched import Health
from rwkv_daemon.workers.cgroups import Scopes
from rwkv_daemon.workers.run_directory import RunDir
from rwkv_daemon.workers.worker_process import Worker
from rwkvctl.protocol.engine import EngineStats
from rwkvctl.protocol.messages import ComparisonView, Event, LeaseView
from rwkvctl.protocol.numerics import in_force
from rwkvctl.protocol.states import ACTIVE, TERMINAL
from rwkvctl.settings.config import Config

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
    ended_at: float = 0.0
    beat: int = -1
    beat_at: float = field(default_factory=time.monotonic)
    closed: str = ""
    doomed: str = ""
    ladder: Ladder = field(default_factory=Ladder)
    withdrawn_at: float = float("-inf")
    shrunk_to: int = 0
    trouble: str = ""

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
    intent: str = ""
    ladder: Ladder = field(default_factory=Ladder)
    motion: Motion = field(default_factory=Motion)
    stall: str = ""
    engine: int | None = None
    endpoints: tuple[int, ...] = ()
    meter: Meter = field(default_factory=Meter)
    pace: Pace = field(default_factory=Pace)
    stages_before: int = 0
    regrades: bool = False
    exit: tuple[ShimRecord | None] | None = None

    def rate(self, done: int) -> float | None:
        """Samples a second since this daemon began to watch."""
        self.pace.see(done, time.monotonic())
        if self.first_done is None:
            self.first_done, self.started = done, time.monotonic()
        passed = time.monotonic() - self.started
        return (done - self.first_done) / passed if passed > 1 and done > self.first_done else None


@dataclass(slots=True)
class BackOff:
    """Failures in a row of one kind of engine, its ends from outside, and when the next start may be."""

    failures: int = 0
    kills: int = 0
    not_before: float = 0.0


@dataclass(slots=True)
class Node:
    """The daemon's memory."""

    config: Config
    store: Store
    benchmarks: Benchmarks
    health: Health = field(default_factory=Health)
    known: Known = field(default_factory=Known)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once what the store says was taken up: what an earlier daemon left running is adopted."""
    bus: Bus = field(default_factory=Bus)
    notifier: Notifier = field(default_factory=Notifier)
    pulse: Pulse = field(default_factory=Pulse)
    notify: Notifications = field(default_factory=Notifications)
    engines: dict[int, EngineHandle] = field(default_factory=dict)
    runners: dict[int, RunnerHandle] = field(default_factory=dict)
    back_off: dict[EngineKind, BackOff] = field(default_factory=dict)
    kills: Recent = field(default_factory=Recent)
    retry_at: dict[int, float] = field(default_factory=dict)
    queue: Queue = field(default_factory=Queue)
    tally: Tally = field(default_factory=Tally)
    same_status: SameStatus = field(default_factory=SameStatus)
    orders: dict[str, Order] = field(default_factory=dict)
    ordered: asyncio.Event = field(default_factory=asyncio.Event)
    underway: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)
    """Changes that are being made, by their request ids."""
    rates: Rates = field(default_factory=Rates)
    forecast: Forecast = field(default_factory=Forecast)
    leasing: Leasing = field(default_factory=Leasing)
    leases: list[LeaseView] | None = None
    gpus: dict[str, Gpu] = field(default_factory=dict)
    sight: Sight = field(default_factory=Sight)
    zombies: Census = field(default_factory=Census)
    pauses: Pauses = field(default_factory=Pauses)
    scopes: Scopes = field(default_factory=Scopes)
    tails: Tails = field(default_factory=Tails)
    notes: list[str] = field(default_factory=list)
    judge: JudgeService | None = None
    checker: JudgeService | None = None
    calibrations: dict[str, str] = field(default_factory=dict)
    subjects: dict[int, Sequence[str]] = field(default_factory=dict)
    """Of jobs whose samples were looked through: the subject of each row."""
    reload_problem: str = ""
    compared: dict[tuple[object, ...], ComparisonView] = field(default_factory=dict)
    """What comparing two scores showed, by what tells them apart."""
    looks: Looks = field(default_factory=Looks)
    judge_says: deque[JudgeEvent] = field(default_factory=lambda: deque(maxlen=100))
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    prune: asyncio.Event = field(default_factory=asyncio.Event)
    owner: OwnLock = field(default_factory=OwnLock)
    look_at_held: bool = False
    settling: Settling = field(default_factory=Settling)
    looked_at_held: HeldLook = field(default_factory=HeldLook)
    shared: set[tuple[int, int]] = field(default_factory=set)
    """(job, source) of completions that were taken over, or could not be."""
    bad_rows: dict[int, tuple[object, ...]] = field(default_factory=dict)
    stopping: bool = False
    grants: Grants = field(default_factory=Grants)
    shown_files: ShownFiles = field(default_factory=ShownFiles)
    searches: Searches = field(default_factory=Searches)
    started: str = field(default_factory=now)
    started_monotonic: float = field(default_factory=time.monotonic)
    hostname: str = field(default_factory=socket.gethostname)

    @contextlib.asynccontextmanager
    async def change(self) -> AsyncIterator["Change"]:
        """A transaction whose events are published when it has committed. Where nobody knows whether it has (its commit
        was cut off), what is kept of the store in memory is read anew."""
        sent = False
        try:
            async with self.store.write() as db:
                change = Change(db)
                yield change
                await audit.settle(db, change.events)
                sent = True
        except BaseException:
            if sent:
                self.tally.forget()
                self.queue.stale = True
                self.wake.set()
            raise
        self.tally.follow(change.steps)
        self.queue.committed(change.moved, change.events)
        self.bus.publish(change.events)
        self.wake.set()

    def folder(self, job: int) -> RunDir:
        """The run directory of a job."""
        return RunDir(self.config.runs_dir / f"j{job}")

    def engine_folder(self, engine: int) -> Path:
        """Where an engine's log and record lie."""
        return self.config.runs_dir / "engines" / f"e{engine}"

    def numerics(self, wanted: str) -> str:
        """The profile in force on this node."""
        return in_force(wanted or self.config.settings.numerics, gpus=leases.has_gpus(self.leases or ()))

    def disk_free_bytes(self) -> int:
        """Room on the home's file system."""
        return disk.free(self.config.home)

    @property
    def trouble(self) -> str:
        """Why nothing can be stored now; empty while all is well."""
        return self.health.sentence

    @property
    def disk_low(self) -> bool:
        """Whether there was too little room at the last look."""
        return bool(self.pauses.disk)


def kept_hold(job: JobRow, happening: lifecycle.Happening) -> dict[str, str]:
    """What a job that is stopped or deleted keeps of an operator's hold, or of the wish for one: it is held again when
    it is resumed, and only `release` ends that. One whose work another had done stays so when it comes back."""
    if happening in {"stop", "delete", "undelete"} and job.reason == "held":
        return {"reason": "held", "detail": job.detail}
    if happening in {"delete", "undelete done"} and job.reason == "done":
        return {"reason": "done", "detail": job.detail}
    if happening == "ended" and job.wanted == "hold" and job.wanted_reason == "held":
        return {"reason": "held", "detail": job.wanted_why}
    return {}


@dataclass(slots=True)
class Change:
    """One transaction in progress."""

    db: Transaction
    events: list[Event] = field(default_factory=list)
    moved: list[JobRow] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    async def move(self, job: JobRow, happening: lifecycle.Happening, **columns: Any) -> JobRow:
        """Let something happen to a job, with other columns that change along; returns the job as it is then."""
        state = lifecycle.after(job.state, happening)
        columns = {"reason": "", "detail": ""} | kept_hold(job, happening) | columns
        if state in TERMINAL:
            columns = {"finished": now()} | columns
        if state not in ACTIVE:
            columns |= {"wanted": "", "wanted_reason": "", "wanted_why": ""}
        if state != "failed":
            columns |= {"failure": ""}
        await update_job(self.db, job.id, state=state, **columns, was=job.state)
        text = f"{job.model} {job.benchmark} {job.kind}: {state}"
        text += f" ({columns['detail'] or columns['reason']})" if columns["detail"] or columns["reason"] else ""
        moved = replace(job, state=state, **columns)
        self.moved.append(moved)
        self.steps.append(Step(job.session, job.state, state, job.id))
        data = as_data(moved)
        engine = f"e{moved.engine}" if state == "starting" and moved.engine else ""
        await self.note("job.state", job=job.name, session=job.session, engine=engine, text=text, data=data)
        return moved

    async def note(self, kind: str, **values: Any) -> None:
        """Store an event of any other kind."""
        event = await events.record(self.db, kind, **values)
        self.events.append(event)
        log.info("%s", event.text or kind, extra=daemon_log.fields(event))
