"""GPUs as the daemon holds them in memory."""

from dataclasses import dataclass, field

from rwkv_daemon.gpus.watch_state import WatchState
from rwkv_daemon.gpus.zombies.process_tracker import ProcessTracker
from rwkv_daemon.rules.gpu_facts import Gpu


@dataclass(slots=True)
class Gpus:
    """The GPUs of this node (`by_id`), the state of their watch, and the processes on them."""

    by_id: dict[str, Gpu] = field(default_factory=dict)
    watch_state: WatchState = field(default_factory=WatchState)
    tracker: ProcessTracker = field(default_factory=ProcessTracker)
