"""The waiting jobs as the daemon holds them in memory."""

from dataclasses import dataclass, field

from rwkv_daemon.changes.change import Change
from rwkv_daemon.rules.forecast import Forecast
from rwkv_daemon.rules.rate_estimate import MeasuredRates
from rwkv_daemon.scheduling.held_scan import HeldScanState
from rwkv_daemon.scheduling.job_queue import JobQueue
from rwkv_daemon.scheduling.pauses import Pauses
from rwkv_daemon.scheduling.state_counts import StateCounts


@dataclass(slots=True)
class WaitingJobs:
    """The queue, what holds it up, and its ETA. Told of every change of the store."""

    queue: JobQueue = field(default_factory=JobQueue)
    state_counts: StateCounts = field(default_factory=StateCounts)
    rates: MeasuredRates = field(default_factory=MeasuredRates)
    forecast: Forecast = field(default_factory=Forecast)
    pauses: Pauses = field(default_factory=Pauses)
    look_at_held: bool = False
    """Set when something has happened that a held job may have waited for."""

    of_paused_recipes: frozenset[int] = frozenset()
    """Jobs for which only paused recipes wait: held ones of these are not released."""

    held_scan: HeldScanState = field(default_factory=HeldScanState)

    @property
    def disk_low(self) -> bool:
        """Whether there was too little free space at the last check."""
        return bool(self.pauses.disk)

    def committed(self, change: Change) -> None:
        """Apply what a transaction has moved."""
        self.state_counts.follow(change.steps)
        self.queue.committed(change.moved, change.events)

    def unsure(self) -> None:
        """Have the queue and the counts of jobs by state read from the store again."""
        self.state_counts.forget()
        self.queue.stale = True
