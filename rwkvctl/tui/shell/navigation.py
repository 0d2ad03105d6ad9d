"""The history of visited screens: back, forward, and the place before. Pure."""

from typing import NamedTuple


class Location(NamedTuple):
    """A screen and what it shows: a job's id, a model, or nothing."""

    name: str
    about: str = ""


class History:
    """Places in the order in which they were visited, and the current position."""

    def __init__(self, start: Location) -> None:
        self._places, self._at = [start], 0
        self._last = start

    @property
    def here(self) -> Location:
        """Return the location that is shown."""
        return self._places[self._at]

    def visit(self, place: Location) -> None:
        """Go to a location; the locations ahead are dropped."""
        if place != self.here:
            self._last = self.here
            self._places = [*self._places[: self._at + 1], place]
            self._at += 1

    def amend(self, about: str) -> None:
        """Replace what the current location shows."""
        self._places[self._at] = self.here._replace(about=about)

    def move(self, by: int) -> Location | None:
        """Return the place one step back (-1) or forward (1) and go there; None if there is none."""
        if not 0 <= self._at + by < len(self._places):
            return None
        self._last = self.here
        self._at += by
        return self.here

    def before(self) -> Location:
        """Return the place that was current before this one; visiting it makes this one the place before."""
        place = self._last
        self.visit(place)
        return place
