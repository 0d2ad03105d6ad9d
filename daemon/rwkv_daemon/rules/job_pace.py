"""Whether a job makes progress as it usually does. Pure."""

from dataclasses import dataclass
from typing import Final

LEAST_S: Final = 15.0
"""Shorter times without a sample, in seconds, are never reported."""

USUAL: Final = 3.0
"""A time without a sample is reported once it is this many times the longest one before."""


@dataclass(slots=True)
class JobPace:
    """When samples of a job were finished, as far as this daemon has seen it."""

    done: int | None = None
    at: float = 0.0
    longest_s: float = 0.0

    def see(self, done: int, clock: float) -> None:
        """Note the number of finished samples at a time, and the longest wait between two changes of it."""
        if self.done is not None and done != self.done:
            self.longest_s = max(self.longest_s, clock - self.at)
        if done != self.done:
            self.done, self.at = done, clock

    def idle_s(self, clock: float) -> float | None:
        """Return the seconds since the last sample, if that is far more than usual; else None."""
        passed = clock - self.at
        return passed if self.longest_s and passed > max(LEAST_S, USUAL * self.longest_s) else None
