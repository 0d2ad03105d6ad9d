"""A preference pair, and the reasons why a problem has none.

The reasons are a closed list, so that a funnel can count the problems that were dropped for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rwkv_data.recipes.selection.problem_sample import ProblemSample

PairRule = Literal["short-long", "silc"]
NoPair = Literal[
    "none-correct", "none-incorrect", "one-correct", "all-cut-off", "none-shorter", "gap-too-small", "none-longer",
]  # fmt: skip
WHY_NO_PAIR: Final[Mapping[NoPair, str]] = {
    "none-correct": "no sample is correct",
    "none-incorrect": "no sample is incorrect",
    "one-correct": "only one sample is correct",
    "all-cut-off": "every correct sample was cut off",
    "none-shorter": "no correct sample that may be chosen is shorter than the longest correct one",
    "gap-too-small": "the shortest and the longest correct sample differ by fewer tokens than min_gap",
    "none-longer": "no correct sample that may be chosen is longer than the shortest incorrect one",
}
"""Each reason as a sentence. A problem with several has the first in the order in which the rule asks."""


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two samples of one problem, the better one first, and the rule that paired them."""

    rule: PairRule
    chosen: ProblemSample
    rejected: ProblemSample
