"""Checkpoints with one content under several names: what was measured under one name is shown under each.

A copy of a checkpoint, or a link to it, has the sha256 of its original, so its work counts as done. Asked for the
scores of the copy, the daemon returns those of the original, marked with the name they were measured under.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from rwkv_daemon.catalogue import contents
from rwkv_daemon.changes.records import Records
from rwkv_daemon.store import JobRow, Store
from rwkv_daemon.store.queries.comparing import ScoredWork, known_models, names_of_same_work, scored_work
from rwkv_daemon.store.queries.jobs import hashes
from rwkvctl.protocol import model_names
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.views import ScoreView

Kind = tuple[str, str, str]
"""(weights, benchmark, kind)."""


class MeasuredScore(NamedTuple):
    """A score, and the sha256 of the weights it was measured with."""

    score: ScoreView
    weights_sha256: str


def is_same_work(job: JobRow) -> bool:
    """Whether a job is done because another job had measured the same: it has no samples and no score of its own."""
    return job.state == "done" and job.reason == "done"


async def whole_name(records: Records, word: str) -> str:
    """Return the model that a word names, either whole or as lists shorten it; the word itself if there is no such
    model. Raises RefusedError if several match."""
    known = await known_models(records.store, word)
    if word in known:
        return word
    found = model_names.meant(word, [*known, *(one.label for one in await on_disk(records))])
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise RefusedError("ambiguous-model", f"{word} may be {names}.", "Type the whole name.", Exit.USAGE)
    return found[0] if found else word


async def names_of_weights(records: Records) -> dict[str, list[str]]:
    """Return sha256 -> names on this node: those of hashed files in the weights folder, and those of jobs that use
    another job's score and whose file is not in the folder any more."""
    known, found = await hashes(records.store), await on_disk(records)
    names: dict[str, dict[str, None]] = {}
    for one in found:
        if sha256 := known.get(one.identity):
            names.setdefault(sha256, {})[one.label] = None
    taken = {one.label for one in found}
    for row in await names_of_same_work(records.store):
        if row["model"] not in taken:
            names.setdefault(row["weights_sha256"], {})[row["model"]] = None
    return {sha256: list(called) for sha256, called in names.items()}


async def on_disk(records: Records) -> list[contents.CheckpointFile]:
    """Return the checkpoints in the weights folder, listed in a thread, as the folder may be on a slow network file
    system."""
    return await asyncio.to_thread(lambda: list(contents.checkpoints(records.config.weights_dir)))


def weights_called(name: str, names: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the sha256 of the weights that have this name on this node, as far as they have been hashed."""
    return tuple(sha256 for sha256, called in names.items() if name in called)


async def under_every_name(
    store: Store, found: Sequence[MeasuredScore], names: Mapping[str, Sequence[str]], model: str = "", *, every: bool
) -> list[ScoreView]:
    """Return the scores, newest first, each followed by itself under the other names of its weights; with a model, only
    those of that name. Unless `every` is set, another name gets only the newest score."""
    others = {one.weights_sha256: names.get(one.weights_sha256, ()) for one in found}
    twins = {name for one in found for name in others[one.weights_sha256] if name != one.score.model}
    work = await scored_work(store, sorted(twins), [weights for weights in others if weights]) if twins else []
    spelled = spread(found, others, work, every=every)
    return [score for score in spelled if model in {"", score.model}]


def spread(
    found: Sequence[MeasuredScore], names: Mapping[str, Sequence[str]], work: Sequence[ScoredWork], *, every: bool
) -> Iterator[ScoreView]:
    """Yield scores under every name. A name keeps the scores that were measured under it: another's stand in only if it
    has none of that kind. `work` is everything with a score under these names or of these weights, on any page."""
    own = {(one.model, one.benchmark, one.kind) for one in work}
    newest: dict[Kind, str] = {}
    for one in sorted(work):
        newest[one.weights_sha256, one.benchmark, one.kind] = f"j{one.job}"
    for score, weights in found:
        yield score
        stands_in = every or newest.get((weights, score.benchmark, score.kind)) == score.job
        for name in names[weights] if stands_in else ():
            if (name, score.benchmark, score.kind) not in own and name != score.model:
                yield renamed(score, name)


def renamed(score: ScoreView, name: str) -> ScoreView:
    """Return a score under another name of its weights."""
    return score if name == score.model else structs.replace(score, model=name, measured_as=score.model)
