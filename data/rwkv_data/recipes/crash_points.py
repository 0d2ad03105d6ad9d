"""Named points at which a test may kill the process while files get their names, as the daemon has them.

`RWKVCTL_CRASH_AT=NAME` in the environment makes that point SIGKILL its own process. Production never sets it.
"""

import os
import signal
from typing import Final

from rwkvctl.settings import config

POINTS: Final = (
    "whole-before-writing",
    "whole-before-flush",
    "whole-before-commit",
    "whole-after-commit",
    "whole-after-moving-away",
    "whole-after-name-1",
    "whole-after-name-2",
    "whole-after-name-3",
    "whole-after-clearing",
)


def crash_point(name: str) -> None:
    """Kill this process if the test asked for it."""
    assert name in POINTS, name
    if config.marker("RWKVCTL_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
