"""The time of an exchange: monotonic seconds, and waiting by them. Tests run it faster than real time."""

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScaledClock:
    """Seconds that pass `speed` times as fast as real ones. Deadlines of HTTP requests stay real."""

    speed: float = 1.0

    def now(self) -> float:
        return time.monotonic() * self.speed

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Return when the event is set, or at a time."""
        seconds = None if until is None else max(until - self.now(), 0.0) / self.speed
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return

    def timeout(self, until: float | None) -> asyncio.Timeout:
        """Return a timeout for a block, as asyncio.timeout does."""
        return asyncio.timeout_at(self.of_loop(until))

    def of_loop(self, until: float | None) -> float | None:
        """Convert a time of this clock to one of the event loop."""
        if until is None:
            return None
        return asyncio.get_running_loop().time() + max(until - self.now(), 0.0) / self.speed
