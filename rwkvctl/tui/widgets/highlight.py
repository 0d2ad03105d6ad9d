"""Tracks values that changed recently: they are bold until they have been stable for a while. Pure."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

HIGHLIGHT_S: Final = 1.5
"""For how long a value that changed is bold: one tick of telemetry and a half, so that a running one stays so."""

NameT = TypeVar("NameT", bound=Hashable)


class Highlights(Generic[NameT]):
    """Names of values, each with the time until which it is highlighted. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._until: dict[NameT, float] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._until

    def __bool__(self) -> bool:
        return bool(self._until)

    def touch(self, name: NameT, now: float) -> None:
        """Record that a value changed at `now`: it is highlighted for HIGHLIGHT_S seconds."""
        self._until[name] = now + HIGHLIGHT_S

    def cool(self, now: float) -> set[NameT]:
        """Remove the values whose time is over, and return their names."""
        cold = {name for name, until in self._until.items() if until <= now}
        for name in cold:
            del self._until[name]
        return cold

    def left_s(self, now: float) -> float:
        """Return the seconds until the next value stops being highlighted, at least 0.1."""
        return max(0.1, min(self._until.values(), default=now) - now)
