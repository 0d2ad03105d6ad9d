"""Queries of whoever looks through samples: pages of them, verdicts of all, texts in them, the same in other jobs."""

from typing import Any, Final, NamedTuple

from rwkv_daemon.store.interface import Row, Store
from rwkv_daemon.store.samples import CURSOR

GRADED: Final = "sample JOIN grade ON sample = number AND grade_key = ?"
CUT: Final = (
    "EXISTS (SELECT 1 FROM completion c "
    "WHERE c.stop = 'length' AND c.job = sample.job AND c.row = sample.row AND c.repeat = sample.repeat)"
)
HAS: Final = " LIKE lower(?) ESCAPE '!'"
HOLDS: Final = (
    f"(lower(expected){HAS} OR lower(COALESCE(extracted, '')){HAS} "
    f"OR EXISTS (SELECT 1 FROM completion c WHERE c.job = sample.job AND c.row = sample.row "
    f"AND c.repeat = sample.repeat AND lower(c.text){HAS}) "
    f"OR EXISTS (SELECT 1 FROM prompt p WHERE p.job = sample.job AND p.row = sample.row AND lower(p.text){HAS}))"
)


class Wanted(NamedTuple):
    """Which samples of a job are asked for; what is empty is not asked."""

    wrong: bool = False
    reason: str = ""
    cut: bool = False
    text: str = ""
    numbers: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        """As conditions."""
        found = ["(value IS NULL OR value < 1) AND reason <> 'dropped'"] if self.wrong else []
        found += ["reason = ?"] if self.reason else []
        found += [f"number IN ({', '.join('?' * len(self.numbers))})"] if self.numbers else []
        found += [CUT] if self.cut else []
        return "".join(f" AND {condition}" for condition in [*found, *([HOLDS] if self.text else [])])

    @property
    def values(self) -> tuple[Any, ...]:
        """What stands for the question marks."""
        return (*([self.reason] if self.reason else []), *self.numbers, *([like(self.text)] * 4 if self.text else []))


def like(text: str) -> str:
    """A text anywhere, as LIKE has it with `!` as its escape."""
    for sign in "!%_":
        text = text.replace(sign, "!" + sign)
    return f"%{text}%"


async def page(
    store: Store, job: int, grade_key: str, wanted: Wanted, *, latest: bool = False, after: int, limit: int
) -> list[Row]:
    """Samples with their grades: in row order after the cursor, or the newest of all first."""
    # a comparison with the cursor would have SQLite read the whole job by its rows, and sort it, to find the newest
    past, at = ("", ()) if latest else (" AND (row, repeat) > (?, ?)", divmod(after, CURSOR))
    return await store.all(
        f"SELECT number, row, repeat, value, reason, expected, extracted, detail, route, parts, judge FROM {GRADED} "
        f"WHERE job = ?{past}{wanted.sql} ORDER BY {'number DESC' if latest else 'row, repeat'} LIMIT ?",
        (grade_key, job, *at, *wanted.values, limit),
    )


async def outline_page(store: Store, job: int, grade_key: str, *, after: int, limit: int) -> list[Row]:
    """The verdicts of samples after the cursor."""
    return await store.all(
        f"SELECT number, row, repeat, reason FROM {GRADED} "
        "WHERE job = ? AND (row, repeat) > (?, ?) ORDER BY row, repeat LIMIT ?",
        (grade_key, job, *divmod(after, CURSOR), limit),
    )


async def searched(store: Store, job: int, grade_key: str, text: str, *, after: int, limit: int) -> list[Row]:
    """The same, with `hit`: whether the sample has a text. So a search is as long as it is asked to be."""
    return await store.all(
        f"SELECT number, row, repeat, reason, CASE WHEN {HOLDS} THEN 1 ELSE 0 END AS hit FROM {GRADED} "
        "WHERE job = ? AND (row, repeat) > (?, ?) ORDER BY row, repeat LIMIT ?",
        (*[like(text)] * 4, grade_key, job, *divmod(after, CURSOR), limit),
    )


async def cut_off(store: Store, job: int, first: int, last: int) -> set[tuple[int, int]]:
    """(row, repeat) of samples between two rows that the token limit cut off in any stage."""
    rows = await store.all(
        "SELECT DISTINCT row, repeat FROM completion WHERE stop = 'length' AND job = ? AND row BETWEEN ? AND ?",
        (job, first, last),
    )
    return {(row["row"], row["repeat"]) for row in rows}


async def doubted(store: Store, job: int, grade_key: str) -> set[int]:
    """Samples whose verdict the checker doubts and nobody has looked at."""
    rows = await store.all(
        "SELECT sample FROM finding WHERE job = ? AND grade_key = ? AND needs_review = 1 AND reviewed = ''",
        (job, grade_key),
    )
    return {row["sample"] for row in rows}


async def same(store: Store, job: int, benchmark: str, place: tuple[int, int], limit: int) -> list[Row]:
    """The sample at (row, repeat) in other jobs of a benchmark, newest job first."""
    return await store.all(
        "SELECT j.id, j.model, j.kind, j.version, j.rows_sha256, j.finished, s.number, g.value, g.reason, g.expected, "
        "g.extracted FROM job j JOIN sample s ON s.job = j.id AND s.row = ? AND s.repeat = ? "
        "JOIN grade g ON g.sample = s.number AND g.grade_key = j.grade_key "
        "WHERE j.benchmark = ? AND j.id <> ? AND j.state <> 'deleted' ORDER BY j.id DESC LIMIT ?",
        (*place, benchmark, job, limit),
    )
