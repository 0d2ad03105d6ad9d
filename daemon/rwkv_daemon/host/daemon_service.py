"""The daemon as a service of this machine."""

import asyncio
from dataclasses import dataclass, field

from rwkv_daemon.host.loop_health import Pulse
from rwkv_daemon.host.sd_notify import Notifier


@dataclass(slots=True)
class DaemonService:
    """The connection to the service manager, the health of the event loop, and requests about the daemon itself."""

    notifier: Notifier = field(default_factory=Notifier)
    pulse: Pulse = field(default_factory=Pulse)
    reload_problem: str = ""
    """Why the last reload changed nothing; empty if it did."""

    prune: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when deleted jobs are to be removed for good."""

    stopping: bool = False
