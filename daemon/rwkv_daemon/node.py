"""What the daemon holds in memory: one object per subsystem. A function takes the objects that it uses."""

from dataclasses import dataclass, field

from rwkv_daemon.api.request_state import RequestState
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.host.daemon_service import DaemonService
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.logs.tailer import LogTails
from rwkv_daemon.notify.targets import Notifications
from rwkv_daemon.recipes.recipe_task import RecipeWork
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import Store
from rwkv_daemon.training.folders.watched_folder import Watches
from rwkvctl.settings.config import Config


@dataclass(slots=True)
class Node:
    """The daemon's memory. Only `main`, `supervisor`, `recovery`, `periodic_tasks` and the api name it."""

    records: Records
    catalogue: NodeCatalogue
    waiting: WaitingJobs = field(default_factory=WaitingJobs)
    running: RunningJobs = field(default_factory=RunningJobs)
    engines: Engines = field(default_factory=Engines)
    gpus: Gpus = field(default_factory=Gpus)
    judges: Judges = field(default_factory=Judges)
    notifications: Notifications = field(default_factory=Notifications)
    comparisons: Comparisons = field(default_factory=Comparisons)
    recipes: RecipeWork = field(default_factory=RecipeWork)
    watches: Watches = field(default_factory=Watches)
    tails: LogTails = field(default_factory=LogTails)
    request_state: RequestState = field(default_factory=RequestState)
    service: DaemonService = field(default_factory=DaemonService)
    work: NodeWork = field(init=False)

    def __post_init__(self) -> None:
        self.records.watchers.append(self.waiting)
        self.work = NodeWork(self.records, self.waiting, self.running, self.engines)

    @classmethod
    def of(cls, config: Config, store: Store, benchmarks: NodeBenchmarks) -> "Node":
        """Return a node with its store and its benchmarks, and nothing else yet."""
        return cls(Records(config, store), NodeCatalogue(benchmarks))
