"""Queries about completions that several jobs share, which have one generation key."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rwkv_daemon.store.interface import Store
from rwkvctl.protocol.endpoints import WRITER, path_of

TAKEN: Final = "the completions of "
"""How the `why` of an attempt begins whose completions were taken over, before the name of the job that made them."""


class CompletionSource(NamedTuple):
    """A queued job that has not begun, and another one that has generated the same."""

    job: int
    source: int


async def sources(store: Store, queued: Sequence[int], generated: Sequence[int]) -> list[CompletionSource]:
    """Return queued jobs that another one has generated for, completely or, if it does not go on by itself, in part:
    all of the jobs `queued`, and others if the source is among `generated`. Without those that were dispatched with
    --overwrite after it."""
    found: dict[int, CompletionSource] = {}
    for one, other, jobs in (("q", "s", queued), ("s", "q", generated)):
        if jobs:
            found |= {source.job: source for source in await _sources_where(store, one, other, jobs)}
    return list(found.values())


async def _sources_where(store: Store, one: str, other: str, jobs: Sequence[int]) -> list[CompletionSource]:
    """Return them where `one` of the two, the queued job q or the source s, is among `jobs`: the `other` is looked up
    by it (in SQLite a CROSS JOIN fixes the order), not by everything that is queued."""
    rows = await store.all(
        f"SELECT q.id AS job, s.id AS source FROM job {one} CROSS JOIN job {other} CROSS JOIN session "
        f"WHERE {one}.id IN ({', '.join('?' * len(jobs))}) AND s.generation_key = q.generation_key "
        "AND session.id = q.session "
        "AND q.state = 'queued' AND q.attempt = 0 AND q.generation_key <> '' AND s.id <> q.id "
        "AND s.numerics <> 'imported' AND s.stages_done > 0 AND s.state <> 'deleted' "
        "AND (s.stages_done >= s.stages * s.total OR s.state IN ('stopped', 'failed', 'done')) "
        "AND q.weights_path <> ? AND s.total > 0 "  # of what the writer replies not everything may be graded
        "AND s.failure <> 'model' AND (s.session = q.session OR session.selection NOT LIKE ?) "
        "ORDER BY q.id, s.stages_done, s.id",
        (*jobs, path_of(WRITER), '%"overwrite":true%'),
    )
    return [CompletionSource(row["job"], row["source"]) for row in rows]
