"""What a job still has to do, from its specification and what earlier attempts wrote. No I/O.

A unit is one sample (row, repeat) on its way through the kind's stages. Stages that are stored are never generated
again.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord


@dataclass(slots=True)
class SampleUnit:
    """One sample: its finished stages, how many engines died under it, and where an engine keeps its state (engine,
    item id, index). `beside`: units that end with it, and are in no queue until then."""

    row: int
    repeat: int
    stages: list[StageRecord] = field(default_factory=list)
    deaths: int = 0
    kept: tuple[str, str, int] | None = None
    beside: list["SampleUnit"] = field(default_factory=list)

    @property
    def stage(self) -> int:
        """Index of the next stage, counted from 0."""
        return len(self.stages)


@dataclass(slots=True)
class SampleQueues:
    """Units by what they wait for: any engine (`pending`), the engine that keeps their state (`kept`), an engine for
    themselves (`suspects`), a grader (`ungraded`). `left` counts unfinished samples."""

    stages: int
    pending: deque[SampleUnit] = field(default_factory=deque)
    kept: dict[str, deque[SampleUnit]] = field(default_factory=dict)
    suspects: deque[SampleUnit] = field(default_factory=deque)
    ungraded: deque[SampleUnit] = field(default_factory=deque)
    prompt_ids: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    left: int = 0

    def add(self, unit: SampleUnit) -> None:
        """Queue a unit for its next step: nearly finished ones go before new ones, so that rows complete."""
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

    def again(self, unit: SampleUnit) -> None:
        """Queue a unit about which something was asked already, before new ones."""
        if unit.deaths:
            self.add(unit)
        else:
            self.pending.appendleft(unit)

    def take(self, most: int, engine: str = "") -> list[SampleUnit]:
        """Return the next batch for an engine: units whose state it keeps; else new ones; else those whose state
        another engine keeps and has not come to, which are then prefilled again from their ids."""
        others = sorted(self.kept.values(), key=len, reverse=True)
        line = next(filter(None, (self.kept.get(engine), self.pending, *others)), None)
        batch: list[SampleUnit] = []
        while line and len(batch) < most and (not batch or line[0].stage == batch[0].stage):
            batch.append(line.popleft())  # of one stage, as all go to one route
        return batch


SUSPECT_DEATHS = 2
"""An engine died twice under such a unit: it is tried once more alone, and then given up. So a death that another unit
caused costs its neighbours nothing, and the unit that kills engines is found."""


def open_work(rows: int, repeats: int, stages: int, records: Iterable[Record]) -> SampleQueues:
    """Return everything that is not finished, in row order."""
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
    """Return stages 0, 1 ... up to the first gap."""
    found: list[StageRecord] = []
    while len(found) in stages:
        found.append(stages[len(found)])
    return found
