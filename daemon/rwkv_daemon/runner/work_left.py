"""What a job still has to do, from its specification and what earlier attempts wrote. No I/O.

A unit is one sample (row, repeat) on its way through the kind's stages. Stages that are stored are never asked again.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord


@dataclass(slots=True)
class SampleUnit:
    """One sample: the stages it has, how often an engine died under it, and where the engine keeps its state."""

    row: int
    repeat: int
    stages: list[StageRecord] = field(default_factory=list)
    deaths: int = 0
    kept: tuple[str, str, int] | None = None

    @property
    def stage(self) -> int:
        """Index of the next stage, counted from 0."""
        return len(self.stages)


@dataclass(slots=True)
class SampleQueues:
    """Units by what they wait for: any engine, the one that keeps their state, one to themselves, a grader."""

    stages: int
    pending: deque[SampleUnit] = field(default_factory=deque)
    kept: dict[str, deque[SampleUnit]] = field(default_factory=dict)
    suspects: deque[SampleUnit] = field(default_factory=deque)
    ungraded: deque[SampleUnit] = field(default_factory=deque)
    prompt_ids: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    left: int = 0

    def add(self, unit: SampleUnit) -> None:
        """Put a unit where it belongs now: nearly finished ones go before fresh ones, so that rows complete."""
        if unit.stage >= self.stages:
            self.ungraded.append(unit)
        elif unit.deaths >= SUSPECT_DEATHS:
            self.suspects.append(unit)
        elif unit.kept is not None and not unit.deaths:
            self.kept.setdefault(unit.kept[0], deque()).append(unit)
        elif unit.stage or unit.deaths:
            self.pending.appendleft(unit)
        else:
            self.pending.append(unit)

    def take(self, most: int, engine: str = "") -> list[SampleUnit]:
        """The next batch for an engine: units whose state it keeps; else fresh ones; else those that another keeps and
        has not come to, which are then read again from their ids."""
        others = sorted(self.kept.values(), key=len, reverse=True)
        line = next(filter(None, (self.kept.get(engine), self.pending, *others)), None)
        batch: list[SampleUnit] = []
        while line and len(batch) < most and (not batch or line[0].stage == batch[0].stage):
            batch.append(line.popleft())  # of one stage, so that they go to one route
        return batch


SUSPECT_DEATHS = 2
"""An engine died twice under such a unit: it is tried once more with nothing beside it, and then given up. A death that
others caused costs its neighbours nothing this way, and the one that kills engines convicts itself."""


def open_work(rows: int, repeats: int, stages: int, records: Iterable[Record]) -> SampleQueues:
    """Everything that is not finished, in row order."""
    finished: set[tuple[int, int]] = set()
    stored: dict[tuple[int, int], dict[int, StageRecord]] = {}
    work = SampleQueues(stages)
    for record in records:
        key = (record.row, record.repeat)
        if isinstance(record, SampleRecord):
            finished.add(key)
        else:
            stored.setdefault(key, {}).setdefault(record.stage, record)
            if record.prompt_ids:
                work.prompt_ids[record.row, record.stage] = record.prompt_ids
    for row in range(rows):
        for repeat in range(repeats):
            if (row, repeat) not in finished:
                work.add(SampleUnit(row, repeat, in_order(stored.get((row, repeat), {}))))
                work.left += 1
    return work


def in_order(stages: dict[int, StageRecord]) -> list[StageRecord]:
    """Stages 0, 1 ... as far as there is no gap."""
    found: list[StageRecord] = []
    while len(found) in stages:
        found.append(stages[len(found)])
    return found
