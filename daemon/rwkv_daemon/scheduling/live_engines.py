"""Engines as the daemon holds them in memory. Processes are adopted after a restart; back-offs begin anew."""

import time
from dataclasses import dataclass, field

from rwkv_daemon.rules.outside_kills import RecentKills
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkv_daemon.scheduling import leases
from rwkv_daemon.scheduling.lease_memory import Leasing
from rwkv_daemon.store import EngineRow
from rwkv_daemon.workers.cgroups import Scopes
from rwkv_daemon.workers.stop_ladder import StopLadder
from rwkv_daemon.workers.worker_process import Worker
from rwkvctl.protocol.engine import EngineStats
from rwkvctl.protocol.numerics import in_force
from rwkvctl.protocol.views import LeaseView
from rwkvctl.settings.config import Config


@dataclass(slots=True)
class EngineHandle:
    """An engine process with its row in the store, its last statistics and the progress of its stop."""

    row: EngineRow
    worker: Worker
    stats: EngineStats | None = None
    """Its last answer to `/v1/stats`."""

    idle_since: float = field(default_factory=time.monotonic)
    """When it last had a job, or became ready. This and the times below are monotonic."""

    started: float = field(default_factory=time.monotonic)
    last_seen: float = field(default_factory=time.monotonic)
    """When it last answered."""

    asked: float = 0.0
    """When it was last asked for its statistics."""

    exit: tuple[ShimRecord | None] | None = None
    """Set once the process has ended, at `ended_at`, with its record: None inside if the shim left none."""

    ended_at: float = 0.0
    beat: int = -1
    """The step counter as it was last read. It last moved at `beat_at`."""

    beat_at: float = field(default_factory=time.monotonic)
    closed: str = ""
    """Why it takes no new work, in words; empty while it does."""

    doomed: str = ""
    """Why it is being killed, in words."""

    ladder: StopLadder = field(default_factory=StopLadder)
    """The progress of its stop."""

    withdrawn_at: float = float("-inf")
    """When a runner was last told to leave it: its requests need a moment to end."""

    shrunk_to: int = 0
    """Its slots when it last reported that it had run out of memory; 0 if it never did."""

    trouble: str = ""
    """The error of the last look at it; an error that repeats is logged once."""

    @property
    def serves(self) -> EngineKind:
        return EngineKind(self.row.weights_sha256, self.row.numerics)


@dataclass(slots=True)
class EngineBackOff:
    """Failures in a row of one kind of engine, its ends from outside, and when the next start is allowed
    (monotonic)."""

    failures: int = 0
    kills: int = 0
    not_before: float = 0.0


@dataclass(slots=True)
class Engines:
    """The engines of this node, and what is known of their leases."""

    live: dict[int, EngineHandle] = field(default_factory=dict)
    back_off: dict[EngineKind, EngineBackOff] = field(default_factory=dict)
    kills: RecentKills = field(default_factory=RecentKills)
    """Recent ends of our processes from outside."""

    leasing: Leasing = field(default_factory=Leasing)
    leases: list[LeaseView] | None = None
    """What engines can be placed on; None until the devices were sampled."""

    scopes: Scopes = field(default_factory=Scopes)
    """Where cgroups of workers are made."""

    def numerics(self, wanted: str, config: Config) -> str:
        """Return the profile that `wanted` means on this node."""
        return in_force(wanted or config.settings.numerics, gpus=leases.has_gpus(self.leases or ()))
