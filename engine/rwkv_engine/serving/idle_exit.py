"""End an engine that a daemon started once nobody wants it any more: no daemon runs, and no work is left.

Whether it is wanted is read from file locks. The daemon holds its home's `daemon.lock` for as long as it lives, even
when stopped or hung, and whoever gives this engine work holds its liveness file in the same way
(`rwkvctl.settings.process_locks`). Loading for nobody is no work: a load that outlives its daemon by the same time
ends, too.
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
LOOK_S = 1.0
ENDING_S = 30.0  # what an orderly end may take


def leave() -> None:
    """End this process at once, without cleanup, with exit code UNLOADED."""
    os._exit(UNLOADED)


@dataclass(slots=True)
class Watch:
    """Looks once a second, from its own thread. `busy` says whether there was work since it was asked last; `end` is
    called once, when nobody has wanted this engine for `idle_s`."""

    daemon_lock: Path
    users: Path | None
    idle_s: float
    busy: Callable[[], bool] = lambda: False
    end: Callable[[], None] = leave

    def start(self) -> None:
        """Start watching in a daemon thread."""
        threading.Thread(target=self._run, name="wanted", daemon=True).start()

    @property
    def wanted(self) -> bool:
        """Whether anybody is there for whom this engine is kept."""
        in_use = self.users is not None and process_locks.is_held(self.users)
        return self.busy() or in_use or process_locks.is_held(self.daemon_lock)

    def _run(self) -> None:
        since = time.monotonic()
        while True:
            if self.wanted:
                since = time.monotonic()
            elif time.monotonic() - since >= self.idle_s:
                break
            time.sleep(max(0.01, min(LOOK_S, self.idle_s / 4)))
        sys.stderr.write(f"no daemon runs, and there was no work for {self.idle_s:g} s: it unloads itself\n")
        sys.stderr.flush()
        self.end()
        time.sleep(ENDING_S)
        leave()
