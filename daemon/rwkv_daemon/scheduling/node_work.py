"""The work of the node: what decides over jobs and engines together."""

from dataclasses import dataclass

from rwkv_daemon.changes.records import Records
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import Waiting


@dataclass(frozen=True, slots=True)
class Work:
    """Records, the jobs that wait and that run, and the engines."""

    records: Records
    waiting: Waiting
    running: RunningJobs
    engines: Engines
