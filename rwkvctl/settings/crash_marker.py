"""Named points at which a test may kill the process, before and after each durable write.

`RWKVCTL_CRASH_AT=NAME` in the environment makes that point SIGKILL its own process. Production never sets it.
"""

import os
import signal
from collections.abc import Container

from rwkvctl.settings import config


def kill_at(name: str, points: Container[str]) -> None:
    """Kill this process if the test asked for it at this one of its points."""
    assert name in points, name
    if config.marker("RWKVCTL_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
