"""GPUs as the daemon holds them in memory."""

from dataclasses import dataclass, field

from rwkv_daemon.gpus.watch_state import Sight
from rwkv_daemon.gpus.zombies.process_tracker import Census
from rwkv_daemon.rules.gpu_facts import Gpu


@dataclass(slots=True)
class Gpus:
    """The GPUs of this node, what is seen of them, and who holds them."""

    known: dict[str, Gpu] = field(default_factory=dict)
    sight: Sight = field(default_factory=Sight)
    zombies: Census = field(default_factory=Census)
