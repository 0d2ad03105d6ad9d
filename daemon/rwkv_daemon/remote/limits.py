"""A limit per minute that holds for every minute: no sixty seconds, wherever they begin, exceed it."""

from collections import deque
from dataclasses import dataclass, field

SPAN_S = 60.0


@dataclass(slots=True)
class MinuteWindow:
    """The amounts of the last minute. `limit` 0: no limit."""

    limit: int
    entries: deque[list[float]] = field(default_factory=deque)
    total: float = 0.0

    def ready_at(self, now: float, amount: float) -> float:
        """Return when an amount fits: now, or once enough old entries are a minute old. An amount above the limit,
        which would never fit, goes when the window is empty."""
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
        """Enter an amount; the entry that is returned can be passed to `settle`."""
        entry = [now, amount]
        if self.limit:
            self.entries.append(entry)
            self.total += amount
        return entry

    def settle(self, entry: list[float], amount: float) -> None:
        """Correct an entry, which was made with the largest possible amount."""
        if self.limit and entry[0] > float("-inf"):
            self.total += amount - entry[1]
            entry[1] = amount

    def _forget(self, now: float) -> None:
        while self.entries and self.entries[0][0] + SPAN_S <= now:
            entry = self.entries.popleft()
            self.total -= entry[1]
            entry[0] = float("-inf")
