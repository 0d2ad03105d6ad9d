"""Where the operator has been: back, forward, and the place before. Pure."""

from typing import NamedTuple


class Place(NamedTuple):
    """A screen and what it shows: a job's id, a model, nothing."""

    name: str
    about: str = ""


class History:
    """Places in the order they were visited, and where in it we are."""

    def __init__(self, start: Place) -> None:
        self._places, self._at = [start], 0
        self._last = start

    @property
    def here(self) -> Place:
        """The place we are at."""
        return self._places[self._at]

    def visit(self, place: Place) -> None:
        """Go somewhere: what lay ahead is forgotten."""
        if place != self.here:
            self._last = self.here
            self._places = [*self._places[: self._at + 1], place]
            self._at += 1

    def amend(self, about: str) -> None:
        """The place we are at turns out to be about this."""
        self._places[self._at] = self.here._replace(about=about)

    def move(self, by: int) -> Place | None:
        """Back (-1) or forward (1); None if there is nothing."""
        if not 0 <= self._at + by < len(self._places):
            return None
        self._last = self.here
        self._at += by
        return self.here

    def before(self) -> Place:
        """The place we were at before this one, wherever it lies; visiting it makes this one the place before."""
        place = self._last
        self.visit(place)
        return place
