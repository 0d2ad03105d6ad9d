"""The processes on GPUs as the samples found them: the newest snapshot of each, and what it did since.

Samples are taken in threads, one GPU at a time, and the reaper reads from the event loop, so a lock protects both.
Nothing is stored: after a restart of the daemon every window begins anew.
"""

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rwkv_daemon.gpus.zombies.act_record import ReapAct
from rwkv_daemon.gpus.zombies.classify import ClassRule, Lookup, MarkedAttempt
from rwkv_daemon.gpus.zombies.evidence import OrphanObservation
from rwkv_daemon.gpus.zombies.procfs import Machine, ProcessSnapshot
from rwkv_daemon.rules.gpu_facts import GpuReading, Holder
from rwkv_daemon.workers.cgroups import SUBGROUP

WHOLE_EVERY_S: Final = 10.0
"""Seconds between two whole snapshots of a process; in between only its state and CPU time are read."""

SCAN_EVERY_S: Final = 10.0
FORGET_S: Final = 60.0
MOST_LOOKS: Final = 2000


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """What the store answered about a marker."""

    name: str
    state: Lookup
    ended: datetime | None = None
    log: str = ""

    def now(self) -> MarkedAttempt:
        ago = (datetime.now(UTC) - self.ended).total_seconds() if self.ended else 0.0
        return MarkedAttempt(name=self.name, state=self.state, ended_s=max(0.0, ago), log=self.log)


@dataclass(slots=True)
class TrackedProcess:
    """A process that holds GPUs: its newest snapshot, its class, and when it last gave a sign of life (`alive_at`).
    `observations` are kept, by GPU, for orphans only: no other class is judged by them. Times are monotonic."""

    process: ProcessSnapshot
    rule: ClassRule
    seen: float
    alive_at: float
    holders: dict[str, Holder] = field(default_factory=dict)
    observations: dict[str, deque[OrphanObservation]] = field(default_factory=dict)
    blocked_since: float | None = None

    def copy(self) -> "TrackedProcess":
        """Return a copy that later observations do not change."""
        return replace(
            self,
            holders=dict(self.holders),
            observations={gpu: deque(observations) for gpu, observations in self.observations.items()},
        )


@dataclass(slots=True)
class ReaperState:
    """The reaper's work, by (pid, start): ordered reaps, running reaps, orphans that the operator was asked about; and
    the GPUs it has quarantined. Used by the event loop only."""

    orders: asyncio.Queue[ReapAct] = field(default_factory=asyncio.Queue)
    acting: dict[tuple[int, int], ReapAct] = field(default_factory=dict)
    asked: set[tuple[int, int]] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ProcessTracker:
    """The tracked processes, and this daemon's own namespace and cgroups, which never change."""

    machine: Machine = field(default_factory=Machine.here)
    namespace: int = field(init=False)
    cgroups: frozenset[str] = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)
    by_pid: dict[int, TrackedProcess] = field(default_factory=dict)
    """The processes that hold a GPU."""

    snapshots: dict[int, tuple[float, ProcessSnapshot]] = field(default_factory=dict)
    """The last whole snapshot of each pid, and when it was taken."""

    readings: dict[str, GpuReading] = field(default_factory=dict)
    """The last reading of each GPU: an observation counts once per reading."""

    absent: dict[tuple[str, int], float] = field(default_factory=dict)
    """Since when NVML lists a pid of a GPU that /proc does not show."""

    attempts: dict[str, StoredAttempt] = field(default_factory=dict)
    """What the store knows of each marker."""

    scanned: float = float("-inf")
    by_device: dict[int, frozenset[str]] = field(default_factory=dict)
    """The device files that each pid has open, as of `scanned`."""

    reaper_state: ReaperState = field(default_factory=ReaperState)

    def __post_init__(self) -> None:
        self.namespace = self.machine.pid_namespace(os.getpid()) or 0
        self.cgroups = with_their_units(self.machine.cgroups(os.getpid()))

    @property
    def contained(self) -> bool:
        """Whether this daemon is in a PID namespace of its own: NVML's pids then mean nothing to it."""
        return self.namespace != self.machine.first_namespace

    def process(self, pid: int, clock: float) -> ProcessSnapshot | None:
        """Return the process as it is now. A whole snapshot is taken now and then, and if its state is unusual."""
        stat = self.machine.stat(pid)
        if stat is None:
            return None
        taken, known = self.snapshots.get(pid, (float("-inf"), None))
        fresh = known is not None and clock - taken < WHOLE_EVERY_S and stat.state not in "ZXD"
        if fresh and known is not None and known.stat.start_ticks == stat.start_ticks:
            return replace(known, stat=stat, tasks=(), age_s=known.age_s + clock - taken)
        found = self.machine.snapshot(pid)
        if found is not None:
            self.snapshots[pid] = clock, found
        return found

    def keep(
        self,
        process: ProcessSnapshot,
        rule: ClassRule,
        holder: Holder,
        gpu: str,
        look: OrphanObservation,
        *,
        counts: bool,
    ) -> None:
        """Add one observation of a process; it counts once for each reading of the GPU. Another process under the same
        pid, or another class, begins anew."""
        found = self.by_pid.get(process.pid)
        if found is None or found.process.stat.start_ticks != process.stat.start_ticks:
            found = self.by_pid[process.pid] = TrackedProcess(process, rule, look.at, look.at)
        if look.utilisation != 0 or process.stat.cpu_ticks != found.process.stat.cpu_ticks:
            found.alive_at = look.at
        found.process, found.rule, found.seen, found.holders[gpu] = process, rule, look.at, holder
        if rule.name == "orphan" and counts:
            found.observations.setdefault(gpu, deque(maxlen=MOST_LOOKS)).append(look)
        elif rule.name != "orphan":
            found.observations.clear()

    def blocked_s(self, process: ProcessSnapshot, clock: float) -> float:
        """Return for how long it was blocked in every observation, without any CPU time in between."""
        found = self.by_pid.get(process.pid)
        if found is None or found.process.stat.start_ticks != process.stat.start_ticks:
            return 0.0
        if not process.blocked:
            found.blocked_since = None
        elif found.blocked_since is None or process.stat.cpu_ticks != found.process.stat.cpu_ticks:
            found.blocked_since = clock
        return clock - found.blocked_since if found.blocked_since is not None else 0.0

    def missing(self, gpu: str, pid: int, clock: float) -> float:
        """Return for how long NVML has listed a pid that /proc does not show."""
        return clock - self.absent.setdefault((gpu, pid), clock)

    def device_holders(self, clock: float) -> dict[int, frozenset[str]]:
        """Return the open device files by pid; all processes are scanned, so that is done only every SCAN_EVERY_S."""
        if clock - self.scanned >= SCAN_EVERY_S:
            self.by_device, self.scanned = self.machine.holders(), clock
        return self.by_device

    def forget(self, gpu: str, listed: set[int], clock: float) -> None:
        """Remove what no longer holds this GPU."""
        for key in [key for key in self.absent if key[0] == gpu and key[1] not in listed]:
            del self.absent[key]
        for pid, tracked in list(self.by_pid.items()):
            if pid not in listed:
                tracked.observations.pop(gpu, None)
                tracked.holders.pop(gpu, None)
            if not tracked.holders or clock - tracked.seen > FORGET_S:
                del self.by_pid[pid]
                self.snapshots.pop(pid, None)

    def wanted(self) -> set[str]:
        """Return the markers about which the store must be asked: unknown ones, and those that ran when it was asked
        last."""
        with self.lock:
            markers = {tracked.process.marker for tracked in self.by_pid.values()} - {""}
            self.attempts = {marker: found for marker, found in self.attempts.items() if marker in markers}
            return markers - {marker for marker, found in self.attempts.items() if found.state in {"ended", "not ours"}}

    def learn(self, found: dict[str, StoredAttempt]) -> None:
        """Keep what the store answered about each marker, in place of earlier answers."""
        with self.lock:
            self.attempts |= found

    def all(self) -> list[TrackedProcess]:
        """Return a copy of every process that holds a GPU."""
        with self.lock:
            return [tracked.copy() for tracked in self.by_pid.values()]

    def ghosts(self, clock: float) -> list[tuple[str, int, float]]:
        """Return (GPU, pid, for how long) for pids that NVML lists and /proc does not show."""
        with self.lock:
            return [(gpu, pid, clock - since) for (gpu, pid), since in self.absent.items()]


def log_bytes(path: str) -> int:
    """Return the size of an attempt's log; 0 if there is none."""
    with contextlib.suppress(OSError):
        return Path(path).stat().st_size if path else 0
    return 0


def with_their_units(groups: Iterable[str]) -> frozenset[str]:
    """Return our cgroups; if the service manager put us into a leaf of our unit (DelegateSubgroup=), also the whole
    unit, as workers are beside that leaf."""
    own = frozenset(groups)
    units = (group.removesuffix(f"/{SUBGROUP}") for group in own)
    return own | {unit for unit in units if unit.endswith(".service")}
