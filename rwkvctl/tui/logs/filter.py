"""Which lines of a log are shown: all, or those that pass a filter and are bad enough. Pure.

A place is the number of a line, or where a filter is set, the number of a hit. Neither changes when old lines go.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, Literal

from rwkvctl.tui.logs.store import LineTest, LogStore, Scan, line_test

Level = Literal["", "warn", "bad"]
LEVELS: Final[tuple[Level, ...]] = ("", "warn", "bad")
LEVEL_WORDS: Final = {
    "warn": rb"(?m)\b(W|WARN(ING)?|E|ERROR|CRITICAL|FATAL|Traceback)(?=[\s:\]]|$)|(Error|Exception):",
    "bad": rb"(?m)\b(E|ERROR|CRITICAL|FATAL|Traceback)(?=[\s:\]]|$)|(Error|Exception):",
}


class LogPlaces:
    """The lines of a store that pass the filter, addressed by place."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.text = ""
        self.least: Level = ""
        self.folds = False
        self.scan: Scan | None = None

    def filter(self, text: str, least: Level) -> None:
        """Show only lines that match and are severe enough. Raises ValueError with a sentence; then nothing changes."""
        test = line_test(text.strip())
        self.text, self.least = text.strip(), least
        if least and test.expression is None:
            level = re.compile(LEVEL_WORDS[least])
            test = LineTest(test.text, test.words, test.without, level, exact=test.exact)
        self.scan = Scan(test, self.store, folds=self.folds) if self.text or least or self.folds else None

    def look_on(self, lines: int) -> bool:
        """Test some more lines against the filter. Returns whether all have been tested."""
        if self.scan is not None:
            self.scan.prune()
            self.scan.step(lines)
        return self.scan is None or self.scan.done

    @property
    def first(self) -> int:
        """Return the first place; the lines before it were dropped, and places are never used again."""
        return self.store.first if self.scan is None else self.scan.dropped

    @property
    def end(self) -> int:
        """Return the place after the last one."""
        return self.store.end if self.scan is None else self.scan.dropped + len(self.scan.hits)

    def number(self, place: int) -> int:
        """Return the number of the line at a place; beyond the last, of the line that would be appended next."""
        if not self.first <= place < self.end:
            return self.store.end
        return place if self.scan is None else self.scan.hits[place - self.scan.dropped]

    def folded(self, place: int) -> int:
        """Return how many lines are folded away before the one at a place."""
        return 0 if self.scan is None else self.scan.folded.get(self.number(place), 0)

    def place(self, number: int) -> int:
        """Return the place of a line, or of the next one that is shown."""
        return number if self.scan is None else self.scan.dropped + bisect_left(self.scan.hits, number)

    def is_shown(self, number: int) -> bool:
        """Return whether the line of this number passes the filter."""
        place = self.place(number)
        return place < self.end and self.number(place) == number

    def seek(self, test: LineTest, start: int, *, forward: bool) -> Iterator[int]:
        """Yield the places of shown lines that match, nearest first: from `start` on, or before it; -1 where the caller
        may pause."""
        found = self.store.seek(test, start, backward=not forward)
        return (number for number in found if number < 0 or self.is_shown(number))
