"""The score of a part of a job's rows, computed from its graded samples."""

import asyncio

from msgspec import structs

from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.compare.row_parts import RowPart
from rwkv_daemon.compare.score_comparison import REMEMBERED, CandidateScore, headline, stored_job
from rwkv_daemon.jobs.score_writer import counted, effective_kind, selected_on_test, statistics, warnings_of
from rwkv_daemon.store.queries.samples import graded
from rwkvctl.protocol.views import ScoreView


async def score_of_part(
    records: Records, comparisons: Comparisons, part: RowPart, candidate: CandidateScore
) -> ScoreView:
    """Return a score with the statistics of these rows alone, remembered, since samples never change. What has no value
    for all rows has none for some. Raises DataError if it cannot be told which they are."""
    if headline(candidate.view) is None:
        return candidate.view
    place = (*candidate.identity, part.name)
    if place not in comparisons.of_parts:
        job = await stored_job(records.store, candidate.job)
        rows, kind = await part.rows_of(job), effective_kind(part.catalogue, job)
        samples = [one for one in await graded(records.store, job.id, candidate.grade_key) if one.row in rows]
        result = await asyncio.to_thread(statistics, kind, samples, None)
        of_part = counted(result, 0) | {
            "chance": candidate.view.chance, "completion_tokens": 0.0, "why_null": result["reason"] or "",
            "warnings": (*warnings_of(result, kind), *await selected_on_test(records, job, kind)),
        }  # fmt: skip
        while len(comparisons.of_parts) >= REMEMBERED:
            del comparisons.of_parts[next(iter(comparisons.of_parts))]
        comparisons.of_parts[place] = structs.replace(candidate.view, **of_part)
    return comparisons.of_parts[place]
