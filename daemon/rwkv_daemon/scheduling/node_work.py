"""The state for deciding over jobs and engines together."""

from dataclasses import dataclass

from rwkv_daemon.changes.records import Records
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs


@dataclass(frozen=True, slots=True)
class NodeWork:
    """Records, the waiting and running jobs, and the engines."""

    records: Records
    waiting: WaitingJobs
    running: RunningJobs
    engines: Engines
