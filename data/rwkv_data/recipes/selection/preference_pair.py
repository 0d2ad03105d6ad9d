"""A preference pair, and the reasons why a problem has none.

The reasons are a closed list, so that a funnel can count the problems that were dropped for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rwkv_data.recipes.selection.problem_sample import ProblemSample

VariantRule = Literal["fcs", "fcs+1", "fcs+reflection"]
"""Rules whose chosen answer is made of a sample: see `thought_variants`."""
PairRule = Literal["short-long", "silc", VariantRule]
NoPair = Literal[
    "none-correct", "none-incorrect", "one-correct", "all-cut-off", "none-shorter", "gap-too-small", "none-longer",
    "of-two-jobs", "no-form", "not-split", "none-true", "one-true", "variant-not-right",
]  # fmt: skip
WHY_NO_PAIR: Final[Mapping[NoPair, str]] = {
    "none-correct": "no sample is correct",
    "none-incorrect": "no sample is incorrect",
    "one-correct": "only one sample is correct",
    "all-cut-off": "every correct sample was cut off",
    "none-shorter": "no correct sample that may be chosen is shorter than the longest correct one",
    "gap-too-small": "the shortest and the longest correct sample differ by fewer tokens than min_gap",
    "none-longer": "no correct sample that may be chosen is longer than the shortest incorrect one",
    "of-two-jobs": "the shortest and the longest correct sample are of different jobs",
    "no-form": "the shortest correct sample has no thought and solution",
    "not-split": "the writer gave no split of the shortest correct sample that can be used",
    "none-true": "no thought of the shortest correct sample states the right answer",
    "one-true": "only one thought of the shortest correct sample states the right answer",
    "variant-not-right": "the variant was not right when it was graded",
}
"""Each reason as a sentence. A problem with several has the first in the order in which the rule asks."""


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two samples of one problem, the better one first, and the rule that paired them. `shortened`: the sample of which
    the chosen one is a variant; None if it is no variant."""

    rule: PairRule
    chosen: ProblemSample
    rejected: ProblemSample
    shortened: ProblemSample | None = None
