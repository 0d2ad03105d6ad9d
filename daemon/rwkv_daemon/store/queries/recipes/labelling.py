"""Queries about labellings: jobs in which the writer labels the rows of a benchmark, and the labels of each."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from rwkv_daemon.store.interface import Store
from rwkv_daemon.store.typed_rows import JobRow
from rwkv_daemon.workers.run_directory import LABELLED, UNREADABLE
from rwkvctl.protocol.endpoints import WRITER, path_of

AT_ONCE: Final = 20_000


class RowLabel(NamedTuple):
    """A row of a labelling by its number in the job: its label as text, else None and the reason."""

    row: int
    label: str | None
    reason: str


async def labellings_of(store: Store, benchmark: str, rows_sha256: str) -> list[JobRow]:
    """Return the jobs that label these rows of a benchmark, newest first."""
    rows = await store.all(
        "SELECT * FROM job WHERE model = ? AND benchmark = ? AND weights_path = ? AND source_job IS NULL "
        "AND rows_sha256 = ? AND state <> 'deleted' ORDER BY id DESC",
        (WRITER, benchmark, path_of(WRITER), rows_sha256),
    )
    return list(map(JobRow.of, rows))


async def row_labels(store: Store, job: JobRow) -> AsyncIterator[list[RowLabel]]:
    """Yield the labels of a job in order of its rows, thousands at a time."""
    last = -1
    while rows := await store.all(
        "SELECT row, reason, extracted FROM sample JOIN grade ON sample = number AND grade_key = ? "
        "WHERE job = ? AND row > ? ORDER BY row LIMIT ?",
        (job.grade_key, job.id, last, AT_ONCE),
    ):
        yield [
            RowLabel(row["row"], row["extracted"] if row["reason"] == LABELLED else None, row["reason"]) for row in rows
        ]
        last = rows[-1]["row"]


async def failed_rows(store: Store, job: JobRow) -> int:
    """Return how many rows of a job have no reply of the writer, because of an error."""
    row = await store.one(
        "SELECT COUNT(*) AS n FROM sample JOIN grade ON sample = number AND grade_key = ? "
        "WHERE job = ? AND reason NOT IN (?, ?)",
        (job.grade_key, job.id, LABELLED, UNREADABLE),
    )
    return int(row["n"]) if row else 0
