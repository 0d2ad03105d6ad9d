"""silc: a longer correct sample against a short incorrect one, so that brevity alone is not what is learnt."""

from collections.abc import Iterable

from rwkv_data.recipes.selection.preference_pair import NoPair, PreferencePair
from rwkv_data.recipes.selection.problem_sample import ProblemSample, with_verdict


def silc(samples: Iterable[ProblemSample]) -> PreferencePair | NoPair:
    """Return the pair of a problem, or why it has none: rejected is the shortest incorrect sample, chosen the shortest
    correct one that has more tokens."""
    judged = with_verdict(samples)
    correct = [sample for sample in judged if sample.is_correct]
    rejected = next((sample for sample in judged if not sample.is_correct), None)
    if rejected is None:
        return "none-incorrect" if correct else "none-correct"
    if not any(sample.may_be_chosen for sample in correct):
        return "all-cut-off" if correct else "none-correct"
    longer = (sample for sample in correct if sample.may_be_chosen and sample.tokens > rejected.tokens)
    chosen = next(longer, None)
    return "none-longer" if chosen is None else PreferencePair("silc", chosen, rejected)
