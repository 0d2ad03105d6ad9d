"""Wake the coroutines of requests from the engine's thread: one at once, or after a step those whose samples grew.

Both threads share one interpreter. To wake a coroutine, have it cut the new text and write it takes some 30 us in which
the engine waits, so 512 streams that read every token would take twice as long as the step that drew them.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

ALWAYS_WOKEN = 32
STEPS_BETWEEN = 8


@dataclass(eq=False, slots=True)
class Wakeup:
    """Wakes one coroutine from the engine's thread. Calls that come before the coroutine has run count as one."""

    loop: asyncio.AbstractEventLoop
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _woken: bool = False

    def claim(self) -> bool:
        """Return whether the coroutine is still to be woken; the caller then has `set` called on the loop."""
        asleep, self._woken = not self._woken, True
        return asleep

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
    """Wakes the readers of growing samples, all of one loop. After each step it wakes those that have waited longest:
    up to 32, and of more than 256 an eighth, so that each reads at least every eighth step. Used by the engine's thread
    alone.

    A running sample grows in every step and its end is announced by itself, so that no reader is left waiting.
    """

    _grown: OrderedDict[Wakeup, None] = field(default_factory=OrderedDict)

    def grown(self, wakeup: Wakeup) -> None:
        """Note that a sample of this reader has a new token."""
        self._grown[wakeup] = None

    def wake(self) -> None:
        """Wake the readers whose turn it is, with one call of the loop."""
        most = max(ALWAYS_WOKEN, len(self._grown) // STEPS_BETWEEN)
        due: list[Wakeup] = []
        while self._grown and len(due) < most:
            wakeup, _ = self._grown.popitem(last=False)
            if wakeup.claim():
                due.append(wakeup)
        if due:
            due[0].loop.call_soon_threadsafe(_set_all, due)


def _set_all(wakeups: Sequence[Wakeup]) -> None:
    for wakeup in wakeups:
        wakeup.set()
