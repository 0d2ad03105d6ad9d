"""The race of a search: which points still run, rung by rung (successive halving). No I/O.

It knows only the verdicts, which are in the samples file, so an interrupted race continues where it was.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.workers.run_directory import Record, SampleRecord
from rwkv_data.definition.sampling_search import Search, survivors


@dataclass(slots=True)
class Race:
    """Units that wait for their rung, and the verdicts so far. `rows` is how many rows are asked."""

    search: Search
    rows: int
    waiting: dict[tuple[int, int], SampleUnit] = field(default_factory=dict)
    verdicts: dict[int, dict[int, float]] = field(default_factory=dict)
    seen: dict[int, set[int]] = field(default_factory=dict)
    live: list[int] = field(default_factory=list)
    rung: int = 0

    @property
    def rungs(self) -> list[int]:
        """Return the numbers of rows after which points are dropped; the last is all of them."""
        return [*(rung for rung in sorted(self.search.rungs) if rung < self.rows), self.rows]

    def take(self, record: SampleRecord) -> None:
        """Take in a verdict. In the race, a sample that waits for the judge counts as 0; an error is no verdict at
        all."""
        if record.reason == "dropped":
            return
        self.seen.setdefault(record.repeat, set()).add(record.row)
        if record.value is not None or record.reason == "unjudged":
            self.verdicts.setdefault(record.repeat, {})[record.row] = record.value or 0.0

    def advance(self, work: SampleQueues) -> list[SampleRecord]:
        """Release the units of the rungs that may run now; returns the records of samples that are dropped."""
        dropped: list[SampleRecord] = []
        while self._finished():
            keep = survivors(self.search, self._known(), self.live)
            dropped += [self._drop(place) for place in list(self.waiting) if place[1] not in keep]
            self.live, self.rung = keep, self.rung + 1
            self.release(work)
        return dropped

    def _known(self) -> dict[int, dict[int, float]]:
        """Return the verdicts of this rung and those before it, so that a resumed race decides as it did before."""
        limit = self.rungs[self.rung]
        return {
            point: {row: value for row, value in self.verdicts.get(point, {}).items() if row < limit}
            for point in self.live
        }

    def _finished(self) -> bool:
        """Whether all live points have all rows of this rung, and there is another rung."""
        limit = self.rungs[self.rung]
        done = all(sum(row < limit for row in self.seen.get(point, ())) == limit for point in self.live)
        return done and self.rung + 1 < len(self.rungs)

    def release(self, work: SampleQueues) -> None:
        """Queue the units of this rung."""
        limit = self.rungs[self.rung]
        for place in [place for place in self.waiting if place[0] < limit]:
            work.add(self.waiting.pop(place))

    def _drop(self, place: tuple[int, int]) -> SampleRecord:
        del self.waiting[place]
        detail = f"the point was dropped after {self.rungs[self.rung]} rows"
        return SampleRecord(row=place[0], repeat=place[1], value=None, reason="dropped", detail=detail)


def open_race(search: Search, rows: int, work: SampleQueues, records: Iterable[Record]) -> Race:
    """Take the units out of the work's queue, to be released rung by rung, and take in what earlier attempts found."""
    race = Race(search, rows, live=list(range(len(search.points))))
    race.waiting = {(unit.row, unit.repeat): unit for unit in work.pending}
    work.pending.clear()
    for record in records:
        if isinstance(record, SampleRecord):
            race.take(record)
    race.release(work)
    return race
