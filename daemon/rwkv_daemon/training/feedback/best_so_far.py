"""Which checkpoint of a training run is the best so far.

The first one is the best until a later one is shown to be better; then that one is, and so on. What comes later changes
nothing about which was the best at a step. Of checkpoints that cannot be told apart the best is therefore the earliest:
the highest of many values is high by luck, too, and whatever follows would seem to be worse than it.

Each checkpoint is tested against the best before it, with p times the number of checkpoints before it and of objectives
(Bonferroni), as any of them might have been better by luck. With several objectives it has to be better by one and
worse by none.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rwkv_data.scoring.paired_tests import verdict
from rwkvctl.protocol.training.feedback import ALPHA
from rwkvctl.protocol.views import ComparisonView

Compare = Callable[[int, int], Awaitable[Sequence[ComparisonView]]]
"""Compares two checkpoints, the second against the first, by each objective."""


@dataclass(frozen=True, slots=True)
class ObjectiveValues:
    """The values of one objective, by checkpoint in the order of their steps; None where there is none."""

    values: Sequence[float | None]
    lower_is_better: bool

    def is_better(self, one: int, than: int) -> bool:
        """Whether the value of one checkpoint is better than that of another, however little."""
        value, other = self.values[one], self.values[than]
        if value is None or other is None:
            return False
        return value < other if self.lower_is_better else value > other


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """The place of the best checkpoint, and of the best before it; how many have a value of each objective, and how
    many of these came after it. `unclear`: those of the later ones that could not be compared with it although their
    value is better."""

    place: int
    before: int | None
    among: int
    later: int
    unclear: tuple[int, ...] = ()


async def best_of(objectives: Sequence[ObjectiveValues], compare: Compare) -> BestSoFar | None:
    """Return the best checkpoint; None if none has a value of each objective. Only those are compared whose value is
    better: no other can be shown to be."""
    every = range(len(objectives[0].values)) if objectives else range(0)
    whole = [place for place in every if all(one.values[place] is not None for one in objectives)]
    if not whole:
        return None
    best, before, unclear = whole[0], None, list[int]()
    for earlier, place in enumerate(whole[1:], 1):
        if not any(one.is_better(place, best) for one in objectives):
            continue
        found = await compare(best, place)
        if is_shown_better(found, earlier * len(objectives)):
            best, before, unclear = place, best, []
        elif any(item.p is None for item in found):
            unclear.append(place)
    return BestSoFar(best, before, len(whole), sum(place > best for place in whole), tuple(unclear))


def is_shown_better(found: Sequence[ComparisonView], tests: int) -> bool:
    """Whether a checkpoint is significantly better by one objective, and by none worse."""
    if any(item.p is None for item in found):
        return False
    return any(_is(item, "better", tests) for item in found) and not any(_is(item, "worse", 1) for item in found)


def _is(item: ComparisonView, word: str, tests: int) -> bool:
    if item.p is None or item.difference is None or item.difference.value is None:
        return False
    adjusted = min(1.0, item.p * tests)
    return verdict(item.difference.value, adjusted, ALPHA, lower=item.lower_is_better) == word
