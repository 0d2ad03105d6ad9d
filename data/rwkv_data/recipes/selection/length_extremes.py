"""The shortest and the longest correct sample of a problem: S and L of the pairs against long-winded reasoning.

S is what is chosen, or what the chosen text is made of, so it was not cut off. L is only rejected: one that was cut off
was longer still, so the comparison holds for it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rwkv_data.recipes.selection.preference_pair import NoPair
from rwkv_data.recipes.selection.problem_sample import ProblemSample, with_verdict


class LengthExtremes(NamedTuple):
    """Two correct samples, of which the first has fewer tokens."""

    shortest: ProblemSample
    longest: ProblemSample


def length_extremes(samples: Iterable[ProblemSample]) -> LengthExtremes | NoPair:
    """Return both samples of a problem, or why it has none. Among samples of the longest length the last is taken."""
    correct = [sample for sample in with_verdict(samples) if sample.is_correct]
    if len(correct) < 2:
        return "one-correct" if correct else "none-correct"
    shortest = next((sample for sample in correct if sample.may_be_chosen), None)
    if shortest is None:
        return "all-cut-off"
    return LengthExtremes(shortest, correct[-1]) if shortest.tokens < correct[-1].tokens else "none-shorter"
