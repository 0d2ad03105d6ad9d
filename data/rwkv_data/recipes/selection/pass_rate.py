"""Which problems are neither too easy nor too hard, by the share of their samples that is correct."""

from collections.abc import Iterable
from dataclasses import dataclass

from rwkv_data.recipes.selection.problem_sample import ProblemSample, with_verdict


@dataclass(frozen=True, slots=True)
class PassRate:
    """The lowest and the highest share of correct samples that a problem may have; both belong to the range."""

    low: float
    high: float

    def holds(self, samples: Iterable[ProblemSample]) -> bool:
        """Whether the share of correct samples among all that have a verdict, those that were cut off included, lies in
        the range. A problem without a verdict has no share."""
        judged = with_verdict(samples)
        # Both the quotient and a decimal in a recipe are rounded to the nearest float, so 1 of 10 is 0.1 exactly.
        return bool(judged) and self.low <= sum(sample.is_correct for sample in judged) / len(judged) <= self.high
