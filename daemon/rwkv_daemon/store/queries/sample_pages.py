"""Queries for reading samples: pages of them, all verdicts, texts in them, the same sample in other jobs."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rwkv_daemon.store.interface import Store, StoreRow
from rwkv_daemon.store.queries.samples import CURSOR

GRADED: Final = "sample JOIN grade ON sample = number AND grade_key = ?"
CUT: Final = (
    "EXISTS (SELECT 1 FROM completion c "
    "WHERE c.stop = 'length' AND c.job = sample.job AND c.row = sample.row AND c.repeat = sample.repeat)"
)
HAS: Final = " LIKE ? ESCAPE '!'"
HOLDS: Final = (
    f"(lower(expected){HAS} OR lower(COALESCE(extracted, '')){HAS} "
    f"OR EXISTS (SELECT 1 FROM completion c WHERE c.job = sample.job AND c.row = sample.row "
    f"AND c.repeat = sample.repeat AND lower(c.text){HAS}) "
    f"OR EXISTS (SELECT 1 FROM prompt p WHERE p.job = sample.job AND p.row = sample.row AND lower(p.text){HAS}))"
)


class SampleFilter(NamedTuple):
    """Which samples of a job are asked for; empty fields do not filter."""

    wrong: bool = False
    reason: str = ""
    cut: bool = False
    text: str = ""
    numbers: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        """The filter as SQL conditions, each preceded by AND; empty if nothing is filtered. `values` holds the
        parameters."""
        found = ["(value IS NULL OR value < 1) AND reason <> 'dropped'"] if self.wrong else []
        found += ["reason = ?"] if self.reason else []
        found += [f"number IN ({', '.join('?' * len(self.numbers))})"] if self.numbers else []
        found += [CUT] if self.cut else []
        return "".join(f" AND {condition}" for condition in [*found, *([HOLDS] if self.text else [])])

    @property
    def values(self) -> tuple[Any, ...]:
        """Parameters of `sql`, in its order."""
        return (*([self.reason] if self.reason else []), *self.numbers, *([like(self.text)] * 4 if self.text else []))


def like(text: str) -> str:
    """Return the LIKE pattern for a text anywhere, with `!` as its escape; ASCII letters are lower-case, as lower()
    makes them."""
    text = text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    for sign in "!%_":
        text = text.replace(sign, "!" + sign)
    return f"%{text}%"


COLUMNS: Final = "number, row, repeat, value, reason, expected, extracted, detail, route, parts, judge"


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """Consecutive samples of a job: after one place up to another, how many, and the place to continue after (None:
    there are no more). A place is row * CURSOR + repeat, or with the newest first, a sample's number. `ranges`: (first,
    last) of the rows that are worth reading, if that is known."""

    after: int
    upto: int
    count: int
    next: int | None
    ranges: tuple[tuple[int, int], ...] | None = None


async def window(store: Store, job: int, after: int, size: int, most: int) -> SampleWindow:
    """Return the next `size` samples in order of row and repeat, or `most`."""
    size = min(size, most)
    row = await store.one(
        f"SELECT COUNT(*) AS n, MAX(row * {CURSOR} + repeat) AS last FROM (SELECT row, repeat FROM sample "
        "WHERE job = ? AND (row, repeat) > (?, ?) ORDER BY row, repeat LIMIT ?) AS page",
        (job, *divmod(after, CURSOR), size),
    )
    return ended(row, after, size)


async def window_of_newest(store: Store, job: int, before: int, size: int, most: int) -> SampleWindow:
    """Return the window with the newest samples first; `before` is a number, or -1."""
    size = min(size, most)
    row = await store.one(
        "SELECT COUNT(*) AS n, MIN(number) AS last FROM (SELECT number FROM sample WHERE job = ? AND number < ? "
        "ORDER BY number DESC LIMIT ?) AS page",
        (job, before if before >= 0 else 2**62, size),
    )
    return ended(row, before, size)


def ended(row: StoreRow | None, after: int, size: int) -> SampleWindow:
    """Return a window from the number of its samples and the last one's place."""
    count, last = (row["n"], row["last"]) if row and row["n"] else (0, after)
    return SampleWindow(after, last, count, last if count == size else None)


async def page(
    store: Store, job: int, grade_key: str, wanted: SampleFilter, *, after: int, limit: int
) -> list[StoreRow]:
    """Return samples with their grades, in order of row and repeat after the cursor."""
    return await store.all(
        f"SELECT {COLUMNS} FROM {GRADED} WHERE job = ? AND (row, repeat) > (?, ?){wanted.sql} "
        "ORDER BY row, repeat LIMIT ?",
        (grade_key, job, *divmod(after, CURSOR), *wanted.values, limit),
    )


async def newest(
    store: Store, job: int, grade_key: str, wanted: SampleFilter, *, before: int, limit: int
) -> list[StoreRow]:
    """Return samples with their grades, newest first; `before` is a number, or -1. (With a comparison of the cursor,
    SQLite would read the whole job by its rows, and sort it.)"""
    return await store.all(
        f"SELECT {COLUMNS} FROM {GRADED} WHERE job = ? AND number < ?{wanted.sql} ORDER BY number DESC LIMIT ?",
        (grade_key, job, before if before >= 0 else 2**62, *wanted.values, limit),
    )


async def page_of(
    store: Store, job: int, grade_key: str, wanted: SampleFilter, within: SampleWindow, limit: int
) -> list[StoreRow]:
    """Return the wanted samples of a window with their grades, in order of row and repeat."""
    return await _within_window(store, f"SELECT {COLUMNS}", job, grade_key, within, (wanted.sql, wanted.values), limit)


async def newest_of(
    store: Store, job: int, grade_key: str, wanted: SampleFilter, within: SampleWindow, limit: int
) -> list[StoreRow]:
    """Return the matching samples of a window of the newest with their grades."""
    before = within.after if within.after >= 0 else 2**62
    return await store.all(
        f"SELECT {COLUMNS} FROM {GRADED} WHERE job = ? AND number < ? AND number >= ?{wanted.sql} "
        "ORDER BY number DESC LIMIT ?",
        (grade_key, job, before, within.upto, *wanted.values, limit),
    )


async def outline_page(store: Store, job: int, grade_key: str, *, after: int, limit: int) -> list[StoreRow]:
    """Return the verdicts of samples after the cursor."""
    return await store.all(
        f"SELECT number, row, repeat, reason FROM {GRADED} "
        "WHERE job = ? AND (row, repeat) > (?, ?) ORDER BY row, repeat LIMIT ?",
        (grade_key, job, *divmod(after, CURSOR), limit),
    )


async def searched(
    store: Store, job: int, grade_key: str, text: str, within: SampleWindow, limit: int
) -> list[StoreRow]:
    """Return the verdicts of a window's samples that contain a text."""
    has = (f" AND {HOLDS}", (like(text),) * 4)
    return await _within_window(store, "SELECT number, row, repeat, reason", job, grade_key, within, has, limit)


async def _within_window(
    store: Store,
    select: str,
    job: int,
    grade_key: str,
    within: SampleWindow,
    has: tuple[str, tuple[Any, ...]],
    limit: int,
) -> list[StoreRow]:
    """Return columns of a window's samples that match a condition, given with its values."""
    holds, values = has
    place = (*divmod(within.after, CURSOR), *divmod(within.upto, CURSOR))
    after = f"job = ? AND (row, repeat) > (?, ?) AND (row, repeat) <= (?, ?){holds} ORDER BY row, repeat LIMIT ?"
    if within.ranges is None:
        return await store.all(f"{select} FROM {GRADED} WHERE {after}", (grade_key, job, *place, *values, limit))
    if not within.ranges:
        return []
    first = "(CAST(? AS INTEGER), CAST(? AS INTEGER))"  # PostgreSQL takes the types of all values from it
    # CROSS JOIN: else SQLite reads every sample of the job, and looks for its row among the ranges
    return await store.all(
        f"WITH wanted (low, high) AS (VALUES {first}{', (?, ?)' * (len(within.ranges) - 1)}) {select} FROM wanted "
        f"CROSS JOIN sample JOIN grade ON sample = number AND grade_key = ? WHERE row BETWEEN low AND high AND {after}",
        (*[row for each in within.ranges for row in each], grade_key, job, *place, *values, limit),
    )


async def cut_off(store: Store, job: int, first: int, last: int) -> set[tuple[int, int]]:
    """Return (row, repeat) of samples between two rows that the token limit cut off in any stage."""
    rows = await store.all(
        "SELECT DISTINCT row, repeat FROM completion WHERE stop = 'length' AND job = ? AND row BETWEEN ? AND ?",
        (job, first, last),
    )
    return {(row["row"], row["repeat"]) for row in rows}


async def doubted(store: Store, job: int, grade_key: str, first: int, last: int) -> set[int]:
    """Return samples between two numbers whose verdict the checker doubts and nobody has reviewed."""
    rows = await store.all(
        "SELECT sample FROM finding WHERE job = ? AND sample BETWEEN ? AND ? AND grade_key = ? AND needs_review = 1 "
        "AND reviewed = ''",
        (job, first, last, grade_key),
    )
    return {row["sample"] for row in rows}


SAME: Final = (
    "SELECT j.id, j.model, j.kind, j.version, j.configuration, j.finished, s.number, g.value, g.reason, "
    "g.expected, g.extracted FROM job j JOIN sample s ON s.job = j.id AND s.row = ? AND s.repeat = ? "
    "JOIN grade g ON g.sample = s.number AND g.grade_key = j.grade_key "
    "WHERE j.benchmark = ? AND j.id <> ? AND j.state <> 'deleted'"
)
"""A sample by its place in other jobs of a benchmark."""


async def same(
    store: Store, job: int, benchmark: str, place: tuple[int, int], *, first: int, limit: int
) -> list[StoreRow]:
    """Return the sample at (row, repeat) in other jobs of a benchmark: of the job `first` (0: none), then newest job
    first."""
    begun = await store.all(f"{SAME} AND j.id = ?", (*place, benchmark, job, first)) if first else []
    others = f"{SAME} AND j.id <> ? ORDER BY j.id DESC LIMIT ?"
    return [*begun, *await store.all(others, (*place, benchmark, job, first, max(0, limit - len(begun))))]
