"""Which samples of a problem become training rows.

    all-correct        every correct sample
    first-correct      by turn: job after job, each by its repeats
    shortest-correct   by completion tokens, then turn
    longest-correct    the last in the same order
    k-correct          drawn by the seed

All but the first take at most `k` samples of a problem, and all that may be chosen if there are fewer. What is taken is
given in the order of the problem's samples. A draw depends on the seed, the row's id and the sample's turn: further
samples of the problem take the place of others only if they are drawn themselves. With `pass_rate` a problem outside of
it has no sample selected; the rate needs all samples of the problem, not only the correct ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rwkv_data.recipes.selection.draw_key import draw_key
from rwkv_data.recipes.selection.pass_rate import PassRate
from rwkv_data.recipes.selection.problem_sample import ProblemSample, with_verdict

SelectionRule = Literal["all-correct", "first-correct", "shortest-correct", "longest-correct", "k-correct"]
SELECTION_RULES: Final[tuple[SelectionRule, ...]] = (
    "all-correct", "first-correct", "shortest-correct", "longest-correct", "k-correct",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A rule with its settings. `k` is None for all-correct alone, which has no limit; `seed` matters to k-correct
    alone."""

    rule: SelectionRule
    k: int | None
    seed: int = 0
    pass_rate: PassRate | None = None

    def in_range(self, samples: Iterable[ProblemSample]) -> bool:
        """Whether a problem with these samples may be selected of at all."""
        return self.pass_rate is None or self.pass_rate.holds(samples)

    def select(
        self, row_id: str, samples: Iterable[ProblemSample], originals: Sequence[ProblemSample] = ()
    ) -> list[ProblemSample]:
        """Return the samples of a problem that are taken. `samples` are all that the problem has; if they are
        rewritings, `originals` are all that there were before, and these have the pass-rate."""
        judged = with_verdict(samples)
        if not self.in_range(originals or judged):
            return []
        candidates = [sample for sample in judged if sample.may_be_chosen]
        return sorted(self._preferred(row_id, candidates)[: self.k], key=lambda sample: sample.place)

    def _preferred(self, row_id: str, in_order: list[ProblemSample]) -> list[ProblemSample]:
        """Return the samples, those first that the rule prefers."""
        match self.rule:
            case "all-correct" | "shortest-correct":
                return in_order
            case "longest-correct":
                return in_order[::-1]
            case "first-correct":
                return sorted(in_order, key=lambda sample: sample.turn)
            case "k-correct":
                return sorted(in_order, key=lambda sample: draw_key("k-correct", self.seed, row_id, sample.turn))
