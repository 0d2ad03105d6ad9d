"""One guest under watch: its deadlines by processor time and by the clock, its end, and what it used."""

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from rwkv_data.sandbox import driver, kernel
from rwkv_data.sandbox.budgets import PATIENCE

LONGEST_NAP_S, SHORTEST_LOOK_S = 0.25, 0.05
SETTLE_S = 2.0
ASLEEP_BELOW = 0.02  # of one processor


class Watch:
    """One guest and its deadlines.

    `cpu_limit`: processor seconds of the whole of it; `cpu_end`, at most that, is where the present call has to be
    done. `idle_limit`: seconds that it may be asleep. Seconds in which it waited for a processor are the machine's and
    not counted: asleep is who uses next to none of a processor, for a busy machine gives everyone some. In the end
    (`PATIENCE` times that) the clock decides all the same.
    """

    def __init__(self, pid: int, cpu_limit: float, idle_limit: float) -> None:
        self.pid = pid
        self.handle = os.pidfd_open(pid)
        self.ending = driver.ALIVE
        self.status = 0
        self.cpu_s = 0.0
        self.cpu_limit = self.cpu_end = cpu_limit
        self.idle_limit = idle_limit
        self.wall_end = time.monotonic() + PATIENCE * idle_limit
        self._idle, self._seen, self._seen_cpu = 0.0, time.monotonic(), 0.0

    def used(self) -> float:
        """Processor seconds so far."""
        if self.ending == driver.ALIVE:
            with suppress(OSError):
                self.cpu_s = kernel.cpu_seconds(self.pid)
        return self.cpu_s

    def allow(self, cpu_s: float, idle_s: float) -> None:
        """So much more from now on, within the limit of the whole."""
        self.cpu_end = min(self.used() + cpu_s, self.cpu_limit)
        self.idle_limit, self._idle = idle_s, 0.0
        self.wall_end = time.monotonic() + PATIENCE * idle_s

    def look(self, cpu_of_all: float) -> float:
        """Kill it if it is over a deadline; seconds until it can be.

        `cpu_of_all`: processor seconds of those that work together: one is not asleep that waits for the other.
        """
        now = time.monotonic()
        if now - self._seen >= SHORTEST_LOOK_S:
            if cpu_of_all - self._seen_cpu < ASLEEP_BELOW * (now - self._seen):
                self._idle += now - self._seen
            self._seen, self._seen_cpu = now, cpu_of_all
        cpu_left, wall_left = self.cpu_end - self.used(), min(self.idle_limit - self._idle, self.wall_end - now)
        if cpu_left <= 0 or wall_left <= 0:
            self.kill(driver.OUT_OF_CPU if cpu_left <= 0 else driver.OUT_OF_WALL)
            return 0.0
        return min(cpu_left, max(wall_left, SHORTEST_LOOK_S), LONGEST_NAP_S)

    def kill(self, ending: int) -> None:
        """End it, and every process in its namespace, now."""
        if self.ending == driver.ALIVE:
            self.used()
            self.ending = ending
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
            self._reap()

    def ended(self) -> None:
        """It ended, and not by our hand. It cannot SIGKILL itself (see seccomp): but for the kernel's own processor
        limit, which counts as ours, whoever did that is outside, as the kernel is when the machine has no memory left.
        """
        if self.ending == driver.ALIVE:
            self.ending = driver.DIED
            self._reap()
            if os.WIFSIGNALED(self.status) and self.cpu_s >= self.cpu_limit:
                self.ending = driver.OUT_OF_CPU
            elif os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL:
                self.ending = driver.KILLED_OUTSIDE

    def _reap(self) -> None:
        _, self.status, usage = os.wait4(self.pid, 0)
        self.cpu_s = max(self.cpu_s, usage.ru_utime + usage.ru_stime)
        os.close(self.handle)

    def settle(self) -> None:
        """It closed what others hear it by: it is ending, or else it is made to end."""
        if self.ending == driver.ALIVE and select.select([self.handle], [], [], SETTLE_S)[0]:
            self.ended()
        self.kill(driver.DIED)

    def report(self) -> dict[str, Any]:
        """For the caller."""
        return {"ending": self.ending, "status": self.status, "cpu_s": self.cpu_s}
