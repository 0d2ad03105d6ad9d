"""Shorter variants of a completion whose reasoning is split into thoughts t1..tm, and whose solution is s.

    fcs                the thoughts up to the first that is right, then s
    fcs+1              one more, if there is one, then s
    fcs+reflection     the thoughts up to the second that is right, then s

(FCS: first correct solution.) The solution is never repeated and never counts as a thought. Without a right thought
there is no variant; with only one, fcs+reflection alone is missing.
"""

from collections.abc import Sequence
from typing import Final, get_args

from rwkv_data.recipes.selection.preference_pair import VariantRule

VARIANT_RULES: Final[tuple[VariantRule, ...]] = get_args(VariantRule)


def first_undecided(verdicts: Sequence[bool | None]) -> int | None:
    """Return the index of the next thought whose verdict is needed, None if none is: what follows the second right one
    is in no variant."""
    right = 0
    for index, verdict in enumerate(verdicts):
        if verdict is None:
            return index
        right += verdict
        if right == 2:
            return None
    return None


def kept_thoughts(verdicts: Sequence[bool | None]) -> dict[VariantRule, int]:
    """Return how many thoughts each variant keeps, in the order of `VARIANT_RULES`. The verdicts that are needed are
    there."""
    right = [number for number, verdict in enumerate(verdicts, 1) if verdict]
    if not right:
        return {}
    kept: dict[VariantRule, int] = {"fcs": right[0], "fcs+1": min(right[0] + 1, len(verdicts))}
    return kept | ({"fcs+reflection": right[1]} if len(right) > 1 else {})
