"""Which completions of a job are split into thoughts: of each problem the shortest right one, if another is longer."""

from collections.abc import AsyncIterator

from rwkv_daemon.store.interface import StoreReader
from rwkv_daemon.store.queries.recipes.rewriting import RightCompletion, right_completions
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.kind import Kind
from rwkv_data.recipes.selection.length_extremes import LengthExtremes, length_extremes
from rwkv_data.recipes.selection.problem_sample import ProblemSample


async def shortest_right(store: StoreReader, kind: Kind, job: int, grade_key: str) -> list[tuple[int, int]]:
    """Return the place (row, repeat) of the shortest right completion of each problem of a job, under a grade key, that
    has a longer right one, too. The kind has one stage."""
    places = []
    async for some in _by_row(store, job, grade_key):
        samples = {one.number: one for one in some}
        found = length_extremes(_sample(kind, one) for one in some)
        if isinstance(found, LengthExtremes):
            shortest = samples[found.shortest.number]
            places.append((shortest.row, shortest.repeat))
    return places


async def _by_row(store: StoreReader, job: int, grade_key: str) -> AsyncIterator[list[RightCompletion]]:
    row: list[RightCompletion] = []
    async for some in right_completions(store, job, grade_key):
        for one in some:
            if row and row[0].row != one.row:
                yield row
                row = []
            row.append(one)
    if row:
        yield row


def _sample(kind: Kind, one: RightCompletion) -> ProblemSample:
    stops = (one.stop,) if one.stop else ()
    cut_off = kind.stop(Answer(one.text, stops)) == "length"  # type: ignore[arg-type]  # stored stop kinds
    return ProblemSample(number=one.number, turn=(0, one.repeat), tokens=one.tokens, value=1.0, cut_off=cut_off)
