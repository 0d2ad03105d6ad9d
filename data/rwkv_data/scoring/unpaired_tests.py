"""The test of two shares of which only the numbers of rows are known, with the standard library alone.

Without the samples nothing can be paired, so rows that are easy or hard for both sides count as chance: such a test
sees only large differences. `paired_tests` is the one to use where both sides have samples.
"""

import math
from typing import NamedTuple

from rwkv_data.scoring.statistics import Estimate, wilson

SAME_WEIGHT = 1 + 1e-7
"""Tables whose probabilities differ by rounding alone are equally likely, as in R's fisher.test."""
REACH = 40
"""Standard deviations."""


class UnpairedComparison(NamedTuple):
    """Two shares of independent samples; `difference` is b - a."""

    difference: Estimate
    p: float


def compare_shares(a: float, n_a: int, b: float, n_b: int) -> UnpairedComparison:
    """Compare two shares of right answers, each over so many rows. A mean over several answers a row is taken as if
    each row had one, which makes its chance larger than it is."""
    return UnpairedComparison(share_difference(a, n_a, b, n_b), fisher(round(a * n_a), n_a, round(b * n_b), n_b))


def share_difference(a: float, n_a: int, b: float, n_b: int) -> Estimate:
    """Return b - a with the interval that combines both sides' Wilson intervals (Newcombe 1998, method 10)."""
    (low_a, high_a), (low_b, high_b) = wilson(a, n_a), wilson(b, n_b)
    difference = b - a
    stderr = math.sqrt(a * (1 - a) / n_a + b * (1 - b) / n_b)
    return Estimate(
        difference,
        stderr,
        difference - math.hypot(b - low_b, high_a - a),
        difference + math.hypot(high_b - b, a - low_a),
    )


def fisher(right_a: int, n_a: int, right_b: int, n_b: int) -> float:
    """Return the two-sided p of Fisher's exact test: the probability, given how many are right in all, of all tables
    that are at most as likely as the one that was found."""
    right, rows = right_a + right_b, n_a + n_b
    expected, spread = n_a * right / rows, math.sqrt(n_a * n_b * right * (rows - right) / rows**3)
    # What is farther from the expected table than this has no weight that a float can hold beside the likeliest one's.
    reach = math.ceil(REACH * spread) + 50
    first, last = max(0, right - n_b, int(expected) - reach), min(right, n_a, int(expected) + reach)
    logs = [_log_weight(found, n_a, right, rows) for found in range(first, last + 1)]
    highest = max(logs)
    weights = [math.exp(log - highest) for log in logs]
    limit = math.exp(_log_weight(right_a, n_a, right, rows) - highest) * SAME_WEIGHT
    return min(1.0, math.fsum(weight for weight in weights if weight <= limit) / math.fsum(weights))


def _log_weight(right_a: int, n_a: int, right: int, rows: int) -> float:
    """Return the logarithm of how often a table occurs, without the factors that all tables share."""
    cells = (right_a, n_a - right_a, right - right_a, rows - n_a - right + right_a)
    return -math.fsum(math.lgamma(cell + 1) for cell in cells)
