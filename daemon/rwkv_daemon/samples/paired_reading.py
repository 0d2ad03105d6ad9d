"""Reading two runs side by side, some rows at a time, however long they are."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.samples.paired_samples import Common, GradedRow, PairTally, Parted, flip, graded_rows
from rwkv_daemon.samples.window_search import WindowSize, long_read
from rwkv_daemon.store import Store
from rwkv_daemon.store.queries.comparing import GradedRun, last_of, parted, rows_of, verdict_counts, verdicts
from rwkv_daemon.store.read_lanes import LateError
from rwkv_data.scoring import paired_tests
from rwkv_data.scoring.paired_tests import PairedComparison
from rwkvctl.protocol.views import FlipView

MOST_AT_ONCE: Final = 5_000
"""Samples that are in memory as objects at a time."""

Piece = TypeVar("Piece")


async def pieces(
    store: Store, runs: Sequence[GradedRun], read: Callable[[int, int], Awaitable[Piece]], progress: QuestionProgress,
    most: int = 50_000,
) -> AsyncIterator[Piece]:  # fmt: skip
    """Yield what `read` returns for all rows that any of the runs has, some rows at a time, in the lane of long reads.
    If a query takes too long, it is repeated for fewer rows."""
    after, pace, clock = -1, WindowSize(), asyncio.get_running_loop().time
    end = max([row for row in [await last_of(store, run.job) for run in runs] if row is not None], default=-1)
    while after < end:
        began = clock()
        try:
            with long_read():
                upto = await next_stop(store, runs, after, min(pace.size, most))
                found = await read(after, upto)
        except LateError:
            pace.late()
            continue
        yield found
        pace.took(clock() - began)
        after = upto
        progress.said = f"{after + 1:,} of {end + 1:,} rows of {' and '.join(f'j{run.job}' for run in runs)}"


async def next_stop(store: Store, runs: Sequence[GradedRun], after: int, size: int) -> int:
    """Return the row up to which none of the runs has more than `size` samples, but at least one row."""
    stops = [await rows_of(store, run.job, after, size) for run in runs]
    full = [stop.row for stop in stops if stop.samples == size]
    return min(full) if full else max(stop.row for stop in stops)


async def tally_up(store: Store, a: GradedRun, b: GradedRun, tally: PairTally, progress: QuestionProgress) -> PairTally:
    """Take in everything of two runs that a comparison needs."""

    async def read(after: int, upto: int) -> list[dict[int, GradedRow]]:
        return [graded_rows(await verdicts(store, run, after, upto)) for run in (a, b)]

    async for ours, theirs in pieces(store, (a, b), read, progress, MOST_AT_ONCE):
        tally.take(ours, theirs)
        await asyncio.sleep(0)
    return tally


async def count_up(
    store: Store, a: GradedRun, b: GradedRun, progress: QuestionProgress
) -> tuple[Common, PairedComparison | None] | None:
    """Compare two runs of the same rows with one right-or-wrong answer each: the database counts everything. None if
    their answers are of another kind."""
    rows_a = rows_b = both = whole = 0
    right = [0, 0, 0, 0]
    async for row in pieces(store, (a, b), lambda after, upto: verdict_counts(store, a, b, after, upto), progress):
        rows_a, rows_b, both, whole = rows_a + row["a"], rows_b + row["b"], both + row["both"], whole + row["whole"]
        right = [sum(each) for each in zip(right, (row[name] for name in RIGHT), strict=True)]
        if sum(right) != whole:
            return None
    common = Common(rows_a, rows_b, rows_a + rows_b - both, whole)
    return common, await asyncio.to_thread(paired_tests.pair_verdicts, *right) if whole else None


RIGHT: Final = ("right", "only_a", "only_b", "neither")


async def first_parted(store: Store, a: GradedRun, b: GradedRun, most: int, progress: QuestionProgress) -> list[Parted]:
    """Return the first rows on which one of two such runs is right and the other wrong."""
    found: list[Parted] = []
    if most:
        async for rows in pieces(store, (a, b), lambda after, upto: parted(store, a, b, after, upto, most), progress):
            found += [Parted(*row) for row in rows]
            if len(found) >= most:
                break
    return found[:most]


async def flips_of(store: Store, a: GradedRun, b: GradedRun, rows: Sequence[Parted]) -> tuple[FlipView, ...]:
    """Return the rows on which two runs differ, as they are shown."""
    found: list[FlipView] = []
    for one in rows:
        ours, theirs = [graded_rows(await verdicts(store, run, one.row - 1, one.row))[one.row] for run in (a, b)]
        found.append(flip(one.row, ours, theirs, (one.a, one.b)))
    return tuple(found)
