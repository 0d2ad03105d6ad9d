"""End an engine that a daemon started once it is not needed any more: no daemon runs, and no work is left.

Whether it is needed is read from file locks. The daemon holds its home's `daemon.lock` for as long as it lives, even
when stopped or hung, and whoever gives this engine work holds its liveness file in the same way
(`rwkvctl.settings.process_locks`). Loading does not count as work: an engine that still loads this long after its
daemon's end is ended, too.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rwkvctl.settings import process_locks

UNLOADED = 5
"""The exit code of an engine that has unloaded itself."""
CHECK_EVERY_S = 1.0
SHUTDOWN_S = 30.0  # the longest time that an orderly shutdown may take


def exit_now() -> None:
    """End this process at once, without cleanup, with exit code UNLOADED."""
    os._exit(UNLOADED)


@dataclass(slots=True)
class IdleWatch:
    """Checks once a second, in its own thread. `busy` says whether there was work since its last call; `end` is called
    once, when the engine has not been needed for `idle_s`."""

    daemon_lock: Path
    users: Path | None
    idle_s: float
    busy: Callable[[], bool] = lambda: False
    end: Callable[[], None] = exit_now

    def start(self) -> None:
        """Start watching in a daemon thread."""
        threading.Thread(target=self._run, name="idle-exit", daemon=True).start()

    @property
    def needed(self) -> bool:
        """Whether the engine has work, or a daemon or another user of it runs."""
        in_use = self.users is not None and process_locks.is_held(self.users)
        return self.busy() or in_use or process_locks.is_held(self.daemon_lock)

    def _run(self) -> None:
        since = time.monotonic()
        while True:
            if self.needed:
                since = time.monotonic()
            elif time.monotonic() - since >= self.idle_s:
                break
            time.sleep(max(0.01, min(CHECK_EVERY_S, self.idle_s / 4)))
        sys.stderr.write(f"no daemon runs, and there was no work for {self.idle_s:g} s: the engine exits\n")
        sys.stderr.flush()
        self.end()
        time.sleep(SHUTDOWN_S)
        exit_now()
