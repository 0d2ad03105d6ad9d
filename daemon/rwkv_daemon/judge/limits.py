"""A limit per minute that holds for every minute: no sixty seconds, wherever they begin, hold more than it allows."""

from collections import deque
from dataclasses import dataclass, field

SPAN_S = 60.0


@dataclass(slots=True)
class MinuteWindow:
    """Amounts of the last minute. `limit` 0 allows everything."""

    limit: int
    entries: deque[list[float]] = field(default_factory=deque)
    total: float = 0.0

    def ready_at(self, now: float, amount: float) -> float:
        """When the amount fits: now, or once enough old entries are a minute old. One that is larger than the limit
        goes when nothing else is there, as it would never fit."""
        self._forget(now)
        if not self.limit or not self.entries:
            return now
        excess = self.total + amount - self.limit
        for at, old in self.entries:
            if excess <= 0:
                break
            excess -= old
            now = at + SPAN_S
        return now

    def add(self, now: float, amount: float) -> list[float]:
        """Enter an amount; what is returned can be given to `settle`."""
        entry = [now, amount]
        if self.limit:
            self.entries.append(entry)
            self.total += amount
        return entry

    def settle(self, entry: list[float], amount: float) -> None:
        """Correct an entry: the reservation was for the most there could be."""
        if self.limit and entry[0] > float("-inf"):
            self.total += amount - entry[1]
            entry[1] = amount

    def _forget(self, now: float) -> None:
        while self.entries and self.entries[0][0] + SPAN_S <= now:
            entry = self.entries.popleft()
            self.total -= entry[1]
            entry[0] = float("-inf")
