"""Who asked for the change that is being made, for the audit trail."""

import os
from contextvars import ContextVar
from typing import Final

from rwkv_daemon.rules.roles import Actor


def the_daemon() -> Actor:
    """Return the actor for what the daemon does by itself."""
    return Actor(os.geteuid(), os.getegid(), os.getpid(), "daemon")


CALLER: Final[ContextVar[Actor | None]] = ContextVar("caller", default=None)


def caller() -> Actor:
    """Return who asked for the current change; the daemon itself if nobody did."""
    return CALLER.get() or the_daemon()
