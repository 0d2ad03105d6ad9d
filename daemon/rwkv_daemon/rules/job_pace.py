"""Whether a job gets on as it usually does. Pure."""

from dataclasses import dataclass
from typing import Final

LEAST_S: Final = 15.0
"""Silences shorter than this, in seconds, are never reported."""

USUAL: Final = 3.0
"""A silence is reported once it lasts this many times the longest wait for a sample before."""


@dataclass(slots=True)
class JobPace:
    """When samples of a job were finished, as far as this daemon saw it."""

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
        """Seconds since the last sample, where that is far more than usual; None where it is not, or nothing is usual
        yet."""
        passed = clock - self.at
        return passed if self.longest_s and passed > max(LEAST_S, USUAL * self.longest_s) else None
