"""The health of the event loop: a periodic beat, how late each one came, and the watchdog that it feeds.

A blocked loop cannot beat, so the service manager hears nothing and restarts the daemon. NVML, the store and the judge
do not run on the loop: if one of them hangs, the daemon lives and says so.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from rwkv_daemon.host.sd_notify import Notifier

BEAT_S: Final = 1.0
REMEMBERED: Final = 60
SHARE_OF_WATCHDOG: Final = 3
"""Beats within one watchdog deadline: one may be lost and one late."""


@dataclass(slots=True)
class Pulse:
    """How late the last beats were, in seconds."""

    late_s: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def lag_s(self) -> float:
        """Delay of the last beat in seconds; 0.0 before the first."""
        return self.late_s[-1] if self.late_s else 0.0

    @property
    def worst_s(self) -> float:
        """Longest delay among the recorded beats of the event loop, in seconds; 0.0 before the first."""
        return max(self.late_s, default=0.0)


async def beat(pulse: Pulse, notifier: Notifier) -> None:
    """Record how late each beat of the event loop is, and feed the watchdog after it, until cancelled. The period is
    `BEAT_S`, or a third of the watchdog's deadline if that is shorter."""
    period = BEAT_S if notifier.watchdog_s is None else min(BEAT_S, notifier.watchdog_s / SHARE_OF_WATCHDOG)
    while True:
        before = time.monotonic()
        await asyncio.sleep(period)
        pulse.late_s.append(max(0.0, time.monotonic() - before - period))
        notifier.alive()
