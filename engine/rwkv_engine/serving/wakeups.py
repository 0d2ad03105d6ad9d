"""Wake the coroutines of requests from the engine's thread: one at once, or after a step those whose samples grew.

Both threads share one interpreter: while a reader cuts, encodes and writes new text, the engine waits.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

TEXTS_A_SECOND: Final = 5_000
"""Texts of growing samples that are read in a second; each of 512 streams is read every 0.1 s. With HTTP their readers
then take 3 ms of a step of 8, and 12 where each reads every token (`bench/streams.py`)."""
TEXTS_AT_ONCE: Final = 1000
"""Texts that may be read after a step that took long, or the first one."""


@dataclass(eq=False, slots=True)
class Wakeup:
    """Wakes one coroutine from the engine's thread, which then reads `texts` samples. Calls that come before the
    coroutine has run count as one."""

    loop: asyncio.AbstractEventLoop
    texts: int = 1
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _woken: bool = False

    def claim(self) -> bool:
        """Return whether the coroutine is still to be woken; the caller then has `set` called on the loop."""
        if self._woken:
            return False  # and nothing is stored: the coroutine may just be clearing it
        self._woken = True
        return True

    def set(self) -> None:
        self._event.set()

    def wake(self) -> None:
        """Wake the coroutine. Once its `wait` returns, it sees whatever was done before this call."""
        if self.claim():
            self.loop.call_soon_threadsafe(self.set)

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()
        self._woken = False


@dataclass(eq=False, slots=True)
class StreamWakeups:
    """Wakes the readers of growing samples, all of one loop: after each step those that have waited longest, as many as
    5,000 texts a second allow. Used by the engine's thread alone.

    None is left waiting: the engine steps until every sample has ended, and each end is announced by a wake-up of its
    own. Readers of ended samples stay here until a later step, which changes nothing for them.
    """

    clock: Callable[[], float] = time.monotonic
    _grown: OrderedDict[Wakeup, None] = field(default_factory=OrderedDict)
    _allowed: float = TEXTS_AT_ONCE
    _looked_s: float = 0.0

    def grown(self, wakeup: Wakeup) -> None:
        """Note that a sample of this reader has a new token."""
        self._grown[wakeup] = None

    def wake(self) -> None:
        """Wake the readers whose turn it is, with one call of the loop."""
        now_s = self.clock()
        self._allowed = min(TEXTS_AT_ONCE, self._allowed + (now_s - self._looked_s) * TEXTS_A_SECOND)
        self._looked_s = now_s
        due: list[Wakeup] = []
        while self._grown and self._allowed > 0:
            wakeup, _ = self._grown.popitem(last=False)
            if wakeup.claim():
                due.append(wakeup)
                self._allowed -= wakeup.texts
        if due:
            due[0].loop.call_soon_threadsafe(_set_all, due)


def _set_all(wakeups: Sequence[Wakeup]) -> None:
    for wakeup in wakeups:
        wakeup.set()
