"""Jobs that wait, as the daemon holds them in memory."""

from dataclasses import dataclass, field

from rwkv_daemon.changes.change import Change
from rwkv_daemon.rules.forecast import Forecast
from rwkv_daemon.rules.rate_estimate import Rates
from rwkv_daemon.scheduling.held_scan import HeldLook
from rwkv_daemon.scheduling.job_queue import Queue
from rwkv_daemon.scheduling.pauses import Pauses
from rwkv_daemon.scheduling.state_counts import Tally


@dataclass(slots=True)
class Waiting:
    """The queue, what holds it up, and when it will be done. It hears of every change of the store."""

    queue: Queue = field(default_factory=Queue)
    tally: Tally = field(default_factory=Tally)
    rates: Rates = field(default_factory=Rates)
    forecast: Forecast = field(default_factory=Forecast)
    pauses: Pauses = field(default_factory=Pauses)
    look_at_held: bool = False
    """Something has happened that a held job may have waited for."""

    looked_at_held: HeldLook = field(default_factory=HeldLook)

    @property
    def disk_low(self) -> bool:
        """Whether there was too little room at the last look."""
        return bool(self.pauses.disk)

    def committed(self, change: Change) -> None:
        """Take over what a transaction has moved."""
        self.tally.follow(change.steps)
        self.queue.committed(change.moved, change.events)

    def unsure(self) -> None:
        """Have the queue and the counts of jobs by state read from the store again."""
        self.tally.forget()
        self.queue.stale = True
