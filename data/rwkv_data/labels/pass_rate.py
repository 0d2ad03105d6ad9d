"""difficulty-by-pass-rate: how difficult a problem is for a model, from its graded samples, without a call.

10 - 9 times the share of right samples among those that have a verdict: 10 if none is right, 1 if all are, which are
the ends of the scale that problems of contests are rated on. A problem without a verdict has no label.
"""

from typing import Final

RULE: Final = "difficulty-by-pass-rate"
VERSION: Final = 1
LABEL: Final = f"{RULE}/{VERSION}"
NO_VERDICT: Final = "without a verdict"
NOT_ASKED: Final = "not asked"


def difficulty(right: int, verdicts: int) -> float | None:
    """Return the label of a problem with so many right samples among so many verdicts."""
    return round(10 - 9 * right / verdicts, 3) if verdicts else None
