"""A search in the runner: rung by rung, and the same after a crash wherever it came."""

import random

from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.runner.race import open_race
from rwkv_daemon.runner.work_left import SampleUnit, open_work
from rwkv_daemon.workers.run_directory import SampleRecord, StageRecord
from rwkv_data.definition.sampling_search import Search

ROWS = 20
SEARCH = Search(stage="answer", grid={"temperature": ("0", "1", "2", "3")}, rungs=(4, 8), keep=0.5)


def run(seed: int, cut: int) -> tuple[list[SampleRecord], int]:
    """The whole race, cut off and started again after so many answers; returns all records and how many were asked."""
    dice, records, asked = random.Random(seed), [], 0
    for most in (cut, 10_000):
        work = open_work(ROWS, 4, 1, records)
        race = open_race(SEARCH, ROWS, work, records)
        records += race.advance(work)
        for _ in range(most):
            if not work.pending:
                break
            unit: SampleUnit = work.pending.popleft()
            asked += 1
            right = dice.random() < (0.9, 0.1, 0.8, 0.2)[unit.repeat]
            record = SampleRecord(row=unit.row, repeat=unit.repeat, value=float(right), reason="right")
            records += [StageRecord(row=unit.row, repeat=unit.repeat, stage=0), record]
            race.take(record)
            records += race.advance(work)
    return [record for record in records if isinstance(record, SampleRecord)], asked


@given(st.integers(0, 1000), st.integers(0, 80))
def test_every_sample_ends_once_and_dropped_ones_are_never_asked(seed: int, cut: int) -> None:
    records, asked = run(seed, cut)
    assert sorted((r.row, r.repeat) for r in records) == [(row, point) for row in range(ROWS) for point in range(4)]
    dropped = [record for record in records if record.reason == "dropped"]
    assert asked == len(records) - len(dropped)
    assert asked <= 4 * 4 + 2 * 4 + 1 * 12
    whole = [point for point in range(4) if sum(r.repeat == point and r.reason != "dropped" for r in records) == ROWS]
    assert len(whole) >= 1


def test_a_search_on_fewer_rows_than_its_first_rung_drops_nobody() -> None:
    work = open_work(3, 4, 1, [])
    race = open_race(SEARCH, 3, work, [])
    assert len(work.pending) == 12
    for unit in list(work.pending):
        race.take(SampleRecord(row=unit.row, repeat=unit.repeat, value=float(unit.repeat == 0), reason="right"))
    assert race.advance(work) == []
