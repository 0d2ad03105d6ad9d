"""Who asked for what is being done: written into the audit trail with it."""

import os
from contextvars import ContextVar
from typing import Final

from rwkv_daemon.rules.roles import Actor


def the_daemon() -> Actor:
    """The actor of what the daemon does by itself."""
    return Actor(os.geteuid(), os.getegid(), os.getpid(), "daemon")


CALLER: Final[ContextVar[Actor | None]] = ContextVar("caller", default=None)


def caller() -> Actor:
    """Who asked for what is being done; the daemon itself, where nobody did."""
    return CALLER.get() or the_daemon()
