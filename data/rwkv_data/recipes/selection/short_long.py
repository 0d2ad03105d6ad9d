"""short-long: the shortest correct sample against the longest correct one."""

from collections.abc import Iterable

from rwkv_data.recipes.selection.length_extremes import length_extremes
from rwkv_data.recipes.selection.preference_pair import NoPair, PreferencePair
from rwkv_data.recipes.selection.problem_sample import ProblemSample


def short_long(samples: Iterable[ProblemSample], *, min_gap: int = 1) -> PreferencePair | NoPair:
    """Return the pair of a problem, or why it has none. `min_gap`: by how many tokens the two must differ at least;
    they always differ."""
    extremes = length_extremes(samples)
    if isinstance(extremes, str):
        return extremes
    if extremes.longest.tokens - extremes.shortest.tokens < min_gap:
        return "gap-too-small"
    return PreferencePair("short-long", extremes.shortest, extremes.longest)
