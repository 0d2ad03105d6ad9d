"""The daemon as a service of this machine."""

import asyncio
from dataclasses import dataclass, field

from rwkv_daemon.host.loop_health import Pulse
from rwkv_daemon.host.sd_notify import Notifier


@dataclass(slots=True)
class DaemonService:
    """What the service manager is told, and what the daemon was told to do with itself."""

    notifier: Notifier = field(default_factory=Notifier)
    pulse: Pulse = field(default_factory=Pulse)
    reload_problem: str = ""
    """Why the last reload changed nothing; empty if it did."""

    prune: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when deleted jobs are to be removed for good."""

    stopping: bool = False
