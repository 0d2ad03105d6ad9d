"""For rows on which two scores differ: whether the token limit cut a completion off."""

import asyncio
from collections.abc import Sequence

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.row_names import row_names
from rwkv_daemon.jobs.score_writer import effective_kind
from rwkv_daemon.store import StoreRow
from rwkv_daemon.store.queries.jobs import get_job
from rwkv_daemon.store.queries.samples import CURSOR, stages_of
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import DataError
from rwkv_data.definition.kind import Kind
from rwkvctl.protocol.views import ComparisonView, FlipView

Place = tuple[int, int]
"""(row, repeat)."""


async def with_cuts(records: Records, catalogue: NodeCatalogue, view: ComparisonView) -> ComparisonView:
    """Return the comparison, its flips with the names of their rows, and marked where a completion was cut off."""
    places = [place_of(flip) for flip in view.flips]
    a, b = await cut_off(records, catalogue, view.job_a, places), await cut_off(records, catalogue, view.job_b, places)
    job = await get_job(records.store, int(view.job_a[1:]))
    names = await asyncio.to_thread(row_names, records, catalogue, job) if job else ()
    flips = tuple(
        msgspec.structs.replace(
            flip, cut_a=place in a, cut_b=place in b, row_id=names[flip.row] if flip.row < len(names) else ""
        )
        for flip, place in zip(view.flips, places, strict=True)
    )
    return msgspec.structs.replace(view, flips=flips)


def place_of(flip: FlipView) -> Place:
    """Return (row, repeat) of the sample that is shown."""
    return divmod(flip.after + 1, CURSOR)


async def cut_off(records: Records, catalogue: NodeCatalogue, name: str, places: Sequence[Place]) -> set[Place]:
    """Return which of these samples of a job count as truncated; none if its benchmark does not exist any more."""
    job = await get_job(records.store, int(name[1:])) if places else None
    if job is None:
        return set()
    try:
        kind = effective_kind(catalogue, job)
    except DataError:
        return set()
    found = await stages_of(records.store, job.id, places)
    return {place for place, stages in found.items() if stages and is_cut(kind, stages)}


def is_cut(kind: Kind, stages: Sequence[StoreRow]) -> bool:
    """Whether these stages of a sample ended at the token limit, as the score counts it."""
    stops = tuple(stage["stop"] for stage in stages if stage["stop"])
    return bool(stops) and kind.stop(Answer(text=stages[-1]["text"], stops=stops)) == "length"
