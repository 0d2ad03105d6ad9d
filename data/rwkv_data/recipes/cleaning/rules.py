"""When a problem is dropped. The numbers are those of issue 16, section 5.

Against each row of each benchmark that is not for training, the strongest rule that holds:

    equal        the same words, wherever blanks stand; a row with choices is also compared together with them
    same-words   the same words in another order: a row whose sentences were moved
    13-gram      a run of 13 words of the problem stands in the row
    8-grams      half of the problem's different runs of 8 words, or more, stand in this one row

Beside the issue's three rules, `same-words` is there because moved sentences escape the other two where sentences are
short: 146 of 1,303 rows of GSM8K and 748 of 2,184 of ASDiv with their sentences reversed shared no 13-gram and less
than half of the 8-grams. It needs `SMALLEST_BAG` words; fewer are no two sentences.

Among the problems that stay, one is a duplicate of an earlier one that stays if

    equal        it has the same words; and the same signs, where it is too short for a run of 5 words
    near         the Jaccard similarity of their runs of 5 words is 0.8 or more

MinHash estimates that similarity; here it is computed exactly (`near_duplicates`), so no pair is missed by chance and
none is dropped by it.

A problem of fewer than 8 words is compared for equality alone: every short question stands somewhere in a longer one.
"""

from typing import Final, Literal

Rule = Literal["equal", "same-words", "13-gram", "8-grams"]
RULES: Final[tuple[Rule, ...]] = ("equal", "same-words", "13-gram", "8-grams")
"""Strongest first."""
LONG_GRAM: Final = 13
SHORT_GRAM: Final = 8
SMALLEST_BAG: Final = 8
DUPLICATE_GRAM: Final = 5


def is_half(shared: int, total: int) -> bool:
    """Return whether so many of a problem's 8-grams are enough."""
    return total > 0 and 2 * shared >= total


def is_near(shared: int, one: int, other: int) -> bool:
    """Return whether two sets of 5-grams with so many in common have a Jaccard similarity of 0.8 or more."""
    return 5 * shared >= 4 * (one + other - shared) > 0


def fewest_shared(one: int, other: int) -> int:
    """Return how many grams two sets of these sizes must at least have in common to be near."""
    return (4 * (one + other) + 8) // 9
