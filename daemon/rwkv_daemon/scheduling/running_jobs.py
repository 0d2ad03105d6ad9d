"""Running jobs as the daemon holds them in memory. Processes are adopted after a restart; the rest begins anew."""

import time
from dataclasses import dataclass, field

from rwkv_daemon.rules.job_pace import JobPace
from rwkv_daemon.rules.rate_estimate import EngineTimeMeter
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkv_daemon.workers.stall_detection import Motion
from rwkv_daemon.workers.stop_ladder import StopLadder
from rwkv_daemon.workers.worker_process import Worker


@dataclass(slots=True)
class RunnerHandle:
    """A live runner process, and how fast it is."""

    job: int
    attempt: int
    worker: Worker
    ingested: int = 0
    """Bytes of the samples file that the store holds."""

    started: float = field(default_factory=time.monotonic)
    """When this daemon began to count its samples (monotonic); `first_done` is how many were done then."""

    first_done: int | None = None
    intent: str = ""
    """Why the runner is being ended: `stop`, `pause`, `yield` or `stalled`; empty while it shall go on."""

    ladder: StopLadder = field(default_factory=StopLadder)
    """The progress of its stop."""

    motion: Motion = field(default_factory=Motion)
    """When its process last ran its loop, and its samples last grew."""

    stall: str = ""
    """Why the job counts as stalled."""

    engine: int | None = None
    """The engine that the job was placed on. `endpoints` are all that its runner may ask now, that one included."""

    endpoints: tuple[int, ...] = ()
    meter: EngineTimeMeter = field(default_factory=EngineTimeMeter)
    """Engine time per sample; `pace` are the times between samples."""

    pace: JobPace = field(default_factory=JobPace)
    stages_before: int = 0
    """Stages that were finished when the attempt started: one that adds some earns its restarts back."""

    regrades: bool = False
    """It grades stored completions and needs no engine."""

    harness: bool = False
    """An outside harness does the job; `progress` says how far it is, None before it is at work."""

    progress: str | None = None

    endpoint: str = ""
    """The name of the endpoint that it asks, which is no engine of this node; empty if it asks none."""

    exit: tuple[ShimRecord | None] | None = None
    """Set once the process has ended, with its record: None inside if the shim left none."""

    @property
    def needs_engine(self) -> bool:
        """Whether it has nothing to ask without an engine of this node."""
        return not self.regrades and not self.endpoint

    def rate(self, done: int) -> float | None:
        """Samples a second since this daemon began to watch."""
        self.pace.see(done, time.monotonic())
        if self.first_done is None:
            self.first_done, self.started = done, time.monotonic()
        passed = time.monotonic() - self.started
        return (done - self.first_done) / passed if passed > 1 and done > self.first_done else None


@dataclass(slots=True)
class RunningJobs:
    """The runners of this node, and what is kept about jobs between two of their attempts."""

    runners: dict[int, RunnerHandle] = field(default_factory=dict)
    retry_at: dict[int, float] = field(default_factory=dict)
    """When a job that failed may be tried again (monotonic)."""

    bad_rows: dict[int, tuple[object, ...]] = field(default_factory=dict)
    """For jobs held because of damaged rows: a stamp of the rows' files at that time."""

    shared: set[tuple[int, int]] = field(default_factory=set)
    """(job, source) of completions that were taken over, or cannot be."""
