"""fcs, fcs+1 and fcs+reflection: the shortest correct sample, cut where it had the answer, against the longest one."""

from collections.abc import Mapping
from dataclasses import dataclass

from rwkv_data.recipes.selection.length_extremes import length_extremes
from rwkv_data.recipes.selection.preference_pair import NoPair, PreferencePair, VariantRule
from rwkv_data.recipes.selection.problem_sample import ProblemSample


@dataclass(frozen=True, slots=True)
class ShortenedProblem:
    """The samples of a problem that are of one job, and each variant of the shortest correct one, graded, or why there
    is none."""

    samples: list[ProblemSample]
    variants: Mapping[VariantRule, ProblemSample | NoPair]


def thought_pair(rule: VariantRule, shortened: ShortenedProblem) -> PreferencePair | NoPair:
    """Return the pair of a problem, or why it has none. The variant was graded as an answer of its own; it has to be
    right, and shorter than the longest correct sample."""
    extremes = length_extremes(shortened.samples)
    if isinstance(extremes, str):
        return extremes
    variant = shortened.variants[rule]
    if isinstance(variant, str):
        return variant
    if not variant.may_be_chosen:
        return "variant-not-right"
    if variant.tokens >= extremes.longest.tokens:
        return "none-shorter"
    return PreferencePair(rule, variant, extremes.longest, shortened=extremes.shortest)
