"""A guest of the zygote: its deadlines by processor time, by sleep and by the clock, its end, and what it used."""

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from rwkv_data.sandbox import driver, linux
from rwkv_data.sandbox.budgets import STARVED_AFTER
from rwkv_data.sandbox.processor_waits import UNKNOWN, ProcessorWaits

LONGEST_WAIT_S, SHORTEST_WAIT_S = 0.25, 0.05
SETTLE_S = 2.0
# Where waits are unknown, a guest that was off the processor for less than this share of the time counts as at work.
NEARLY_ALL = 0.98


class SleepClock:
    """How long guests that work together have all been asleep: none at work or waiting for a processor.

    `sure`: the kernel says which guests wait. Else a guest that gets some of a processor counts as at work, because a
    busy machine gives every process some.
    """

    def __init__(self, waits: ProcessorWaits) -> None:
        waits.begin()
        self.seconds = 0.0
        self.sure = False
        self._waits = waits
        self._seen, self._busy = time.monotonic(), -1.0

    def update(self, watches: "list[WatchedGuest]") -> None:
        """Add the time asleep since the last update."""
        now = time.monotonic()
        if self._busy >= 0 and now - self._seen < SHORTEST_WAIT_S:
            return
        waited = self._waits.seconds([watch.handle for watch in watches if watch.ending == driver.ALIVE])
        self.sure = waited != UNKNOWN
        busy = sum(watch.used() for watch in watches) + (waited if self.sure else 0.0)
        if self._busy >= 0:
            passed = now - self._seen
            away = passed - (busy - self._busy)
            # Below zero: several threads ran at once, or a wait was counted only after its end
            self.seconds = max(0.0, self.seconds + (away if self.sure or away >= NEARLY_ALL * passed else 0.0))
        self._seen, self._busy = now, busy


class WatchedGuest:
    """One guest and its deadlines.

    `cpu_limit`: processor seconds of the whole of it; `cpu_end`, at most that, is where the present call has to be
    done. `sleep_limit` and `sleep_end`: the same for the seconds that it, and who works with it, are asleep. Seconds
    in which it waited for a processor are the machine's and not counted; only in the end (`PATIENCE` times both
    limits) does the clock decide, and then nothing can be said of the program.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.handle = os.pidfd_open(pid)
        self.ending = driver.ALIVE
        self.status = 0
        self.cpu_s = 0.0

    def grant(self, cpu_s: float, sleep_s: float, clock: SleepClock) -> None:
        """Set the limits, in seconds, for everything that the guest does from now on."""
        self.clock = clock
        self.cpu_limit = self.cpu_end = self.used() + cpu_s
        self.sleep_limit = self.sleep_end = clock.seconds + sleep_s
        self.wall_end = time.monotonic() + STARVED_AFTER * (cpu_s + sleep_s)

    def allow(self, cpu_s: float, sleep_s: float) -> None:
        """Set the limits, in seconds, for the next call, within what was granted in all."""
        self.cpu_end = min(self.used() + cpu_s, self.cpu_limit)
        self.sleep_end = min(self.clock.seconds + sleep_s, self.sleep_limit)

    def used(self) -> float:
        """Return the processor seconds used so far; after the guest's end, the last figure that was read."""
        if self.ending == driver.ALIVE:
            with suppress(OSError):
                self.cpu_s = linux.cpu_seconds(self.pid)
        return self.cpu_s

    def check_deadlines(self) -> float:
        """Kill the guest if it is over a deadline; return for how many seconds it cannot be."""
        cpu_left, sleep_left = self.cpu_end - self.used(), self.sleep_end - self.clock.seconds
        wall_left = self.wall_end - time.monotonic()
        if min(cpu_left, sleep_left, wall_left) <= 0:
            late = driver.STARVED if self.clock.sure else driver.OUT_OF_WALL
            self.kill(driver.OUT_OF_CPU if cpu_left <= 0 else driver.OUT_OF_WALL if sleep_left <= 0 else late)
            return 0.0
        return min(cpu_left, max(min(sleep_left, wall_left), SHORTEST_WAIT_S), LONGEST_WAIT_S)

    def kill(self, ending: int) -> None:
        """Kill the guest, and every process in its namespace, at once."""
        if self.ending == driver.ALIVE:
            self.used()
            self.ending = ending
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
            self._reap()

    def ended(self) -> None:
        """Record the end of a guest that this process did not kill. A guest cannot SIGKILL itself (see seccomp), so a
        SIGKILL came from outside (as when the machine has no memory left), or from the kernel's processor limit.
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
        """Wait for the end of a guest that has closed its descriptors, and kill it if it does not end."""
        if self.ending == driver.ALIVE and select.select([self.handle], [], [], SETTLE_S)[0]:
            self.ended()
        self.kill(driver.DIED)

    def report(self) -> dict[str, Any]:
        """Return how the guest ended and what it used, for the zygote's reply."""
        used = {"cpu_s": self.cpu_s, "asleep_s": self.clock.seconds, "sure": self.clock.sure}
        return {"ending": self.ending, "status": self.status, **used}
