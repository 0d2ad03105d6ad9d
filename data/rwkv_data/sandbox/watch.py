"""One guest under watch: its deadlines by processor time, by sleep and by the clock, its end, and what it used."""

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from rwkv_data.sandbox import driver, kernel
from rwkv_data.sandbox.budgets import PATIENCE
from rwkv_data.sandbox.schedule import UNKNOWN, Waits

LONGEST_NAP_S, SHORTEST_LOOK_S = 0.25, 0.05
SETTLE_S = 2.0
BARELY = 0.98  # of the time that has passed: who was away for less of it is at work, where nobody counts who waits


class SleepClock:
    """How long guests that work together have been asleep, all at once: neither at work nor waiting for a processor.

    `sure`: the kernel says who waits. Else a guest that gets some of a processor counts as at work, for a busy machine
    gives everyone some.
    """

    def __init__(self, waits: Waits) -> None:
        waits.begin()
        self.seconds = 0.0
        self.sure = False
        self._waits = waits
        self._seen, self._busy = time.monotonic(), -1.0

    def look(self, watches: "list[Watch]") -> None:
        """Add the time since the last look."""
        now = time.monotonic()
        if self._busy >= 0 and now - self._seen < SHORTEST_LOOK_S:
            return
        waited = self._waits.seconds([watch.handle for watch in watches if watch.ending == driver.ALIVE])
        self.sure = waited != UNKNOWN
        busy = sum(watch.used() for watch in watches) + (waited if self.sure else 0.0)
        if self._busy >= 0:
            passed = now - self._seen
            away = passed - (busy - self._busy)
            # Below zero: several threads at once, or a wait that is written down now that it is over
            self.seconds = max(0.0, self.seconds + (away if self.sure or away >= BARELY * passed else 0.0))
        self._seen, self._busy = now, busy


class Watch:
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
        self.wall_end = time.monotonic() + PATIENCE * (cpu_s + sleep_s)

    def allow(self, cpu_s: float, sleep_s: float) -> None:
        """Set the limits, in seconds, for the next call, within what was granted in all."""
        self.cpu_end = min(self.used() + cpu_s, self.cpu_limit)
        self.sleep_end = min(self.clock.seconds + sleep_s, self.sleep_limit)

    def used(self) -> float:
        """Return the processor seconds used so far; after the guest's end, the last figure that was read."""
        if self.ending == driver.ALIVE:
            with suppress(OSError):
                self.cpu_s = kernel.cpu_seconds(self.pid)
        return self.cpu_s

    def look(self) -> float:
        """Kill the guest if it is over a deadline; return the seconds until it can be."""
        cpu_left, sleep_left = self.cpu_end - self.used(), self.sleep_end - self.clock.seconds
        wall_left = self.wall_end - time.monotonic()
        if min(cpu_left, sleep_left, wall_left) <= 0:
            late = driver.STARVED if self.clock.sure else driver.OUT_OF_WALL
            self.kill(driver.OUT_OF_CPU if cpu_left <= 0 else driver.OUT_OF_WALL if sleep_left <= 0 else late)
            return 0.0
        return min(cpu_left, max(min(sleep_left, wall_left), SHORTEST_LOOK_S), LONGEST_NAP_S)

    def kill(self, ending: int) -> None:
        """Kill the guest, and every process in its namespace, at once."""
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
        """Return how the guest ended and what it used, for the zygote's reply."""
        used = {"cpu_s": self.cpu_s, "asleep_s": self.clock.seconds, "sure": self.clock.sure}
        return {"ending": self.ending, "status": self.status, **used}
