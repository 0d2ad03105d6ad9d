"""Checkpoints of one content under several names: what was measured under one name is shown under each.

A copy or a link in the weights folder has the sha256 of its original, so the plan calls its work done. Whoever asks for
its scores by its own name gets those of the original, which say under which name they were measured.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import structs

from rwkv_daemon import catalogue
from rwkv_daemon.node import Node
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.comparing import known_models, scored_kinds
from rwkv_daemon.store.jobs import hashes
from rwkvctl.protocol import model_names
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.messages import ScoreView

Kind = tuple[str, str, str]
"""(model, benchmark, kind)."""


class Measured(NamedTuple):
    """A score, and the weights it is of."""

    score: ScoreView
    weights_sha256: str


def is_same_work(job: JobRow) -> bool:
    """Whether a job is done because another one had measured the same: it has no samples and no score of its own."""
    return job.state == "done" and job.reason == "done"


async def whole_name(node: Node, word: str) -> str:
    """The model that a word names, whole or as a list with little room shows it; the word itself where no model is
    called so. Raises RefusedError where several are."""
    known = await known_models(node.store, word)
    if word in known:
        return word
    found = model_names.meant(word, [*known, *(one.label for one in catalogue.checkpoints(node.config.weights_dir))])
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise RefusedError("ambiguous-model", f"{word} may be {names}.", "Type the whole name.", Exit.USAGE)
    return found[0] if found else word


async def names_of_weights(node: Node) -> dict[str, list[str]]:
    """sha256 -> the names under which it lies on this node, of what has been hashed."""
    known = await hashes(node.store)
    names: dict[str, list[str]] = {}
    for found in catalogue.checkpoints(node.config.weights_dir):
        if sha256 := known.get(found.identity):
            names.setdefault(sha256, []).append(found.label)
    return names


async def weights_called(node: Node, name: str) -> tuple[str, ...]:
    """The sha256 of what lies on this node under a name, where it has been hashed."""
    return tuple(sha256 for sha256, names in (await names_of_weights(node)).items() if name in names)


async def under_every_name(node: Node, found: Iterable[Measured], model: str = "") -> list[ScoreView]:
    """Scores, each followed by itself under the other names of its weights; with a model, only those of that name."""
    found = list(found)
    names = await names_of_weights(node)
    others = {one.weights_sha256: names.get(one.weights_sha256, ()) for one in found}
    twins = {name for one in found for name in others[one.weights_sha256]} - {one.score.model for one in found}
    own = await scored_kinds(node.store, sorted(twins | ({model} - {""})))
    return list(spread(found, others, own, model))


def spread(
    found: Iterable[Measured], names: Mapping[str, Iterable[str]], own: set[Kind], model: str
) -> Iterator[ScoreView]:
    """A name keeps the scores that were measured under it: another's stand in only where it has none of that kind."""
    own = own | {kind_of(one.score) for one in found}
    for score, weights in found:
        for name in (score.model, *(name for name in names.get(weights, ()) if name != score.model)):
            twin = score if name == score.model else renamed(score, name)
            if (twin is score or kind_of(twin) not in own) and model in {"", name}:
                yield twin


def kind_of(score: ScoreView) -> Kind:
    return score.model, score.benchmark, score.kind


def renamed(score: ScoreView, name: str) -> ScoreView:
    """A score under another name of its weights."""
    if name == score.model:
        return score
    note = f"measured as {score.model}: the same weights"
    return structs.replace(score, model=name, measured_as=score.model, warnings=(note, *score.warnings))
