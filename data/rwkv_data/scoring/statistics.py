"""Statistics of samples, with the standard library alone.

Samples of one row are not independent: the standard error of a repeated benchmark is that of the rows' means, which for
equal repeats is the error clustered by row.

Intervals keep their coverage with few rows, too: the mean of a few has fat tails (Student's), and a few rows that are
alike do not prove that all are. tests/unit/data/scoring/test_intervals.py simulates the coverage.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist, fmean
from typing import NamedTuple

Z = NormalDist().inv_cdf(0.975)
ALIKE = 0.05
"""A sum of squares that is added to that of rows' means, so that a few equal rows do not seem certain."""
MANY = 100
"""From this number of differing rows on, the mean difference is taken as normal."""


class Estimate(NamedTuple):
    """A value with its standard error (None from a single row) and its 95 % interval."""

    value: float
    stderr: float | None
    ci_low: float
    ci_high: float


def mean_stderr(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error s/sqrt(n), with n - 1 in s."""
    n, mean = len(values), fmean(values)
    if n < 2:
        return mean, None
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def wilson(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Return Wilson's interval of a proportion, which stays within [0, 1] and has a width at 0 % and 100 % too."""
    d = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / d
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / d
    # At 0 % and 100 % an end of the interval is the share itself, which rounding must not cut off.
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))


def student(df: int) -> float:
    """Return the 97.5 % quantile of Student's t: exact for one and two degrees of freedom, else the expansion around
    the normal one (Abramowitz and Stegun 26.7.5), which is 0.1 % off for three and more exact for more."""
    if df < 3:  # a single row says nothing: as for two
        return math.sqrt(0.95**2 * 2 / (1 - 0.95**2)) if df == 2 else math.tan(math.pi * 0.475)
    terms = (
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
        (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92160,
    )
    return Z + math.fsum(term / df**power for power, term in enumerate(terms, 1))


def share_interval(share: float, stderr: float, n: int) -> tuple[float, float]:
    """Return the interval of a share over n rows that are not only right or wrong: Wilson's, for the number of answers
    that would have this standard error. Rows vary at most as much as right and wrong ones; how much less is estimated
    from n of them, so `ALIKE` is added to both sums of squares."""
    most, own = n * share * (1 - share) + ALIKE, n * (n - 1) * stderr**2 + ALIKE
    return wilson(share, n * most / own, student(n - 1))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the probability that at least one of k samples is right, drawn from n of which c are: 1 - C(n-c, k) /
    C(n, k)."""
    _enough(n, c, k)
    all_wrong: float = math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
    return 1.0 if n - c < k else 1.0 - all_wrong


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return the probability that k samples, drawn from n of which c are right, are all right: C(c, k) / C(n, k)."""
    _enough(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def avg_at_k(values: Sequence[float], k: int) -> float:
    """Return the mean of the first k samples."""
    _enough(len(values), 0, k)
    return fmean(values[:k])


def maj_at_k(votes: Sequence[Hashable | None], values: Sequence[float], k: int) -> float:
    """Return the value of the most frequent answer among the first k; on a tie the mean of the tied ones. None is no
    vote.

    Equal votes must mean equal answers (classes of the grader, not raw text), and have equal values.
    """
    _enough(len(votes), 0, k)
    value_of = {vote: value for vote, value in zip(votes[:k], values[:k], strict=True) if vote is not None}
    counts = {vote: list(votes[:k]).count(vote) for vote in value_of}
    top = max(counts.values(), default=0)
    return fmean([value_of[vote] for vote, count in counts.items() if count == top]) if counts else 0.0


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p of discordant pairs: the numbers of rows that only a, and only b, has right."""
    n, fewer = only_a + only_b, min(only_a, only_b)
    low, high = _p_between(n, fewer) if fewer > FEW_PAIRS else (0.0, 1.0)
    return low if low == high else _exact_p(n, fewer)


FEW_PAIRS = 500
"""Up to this number of pairs the p value is summed term by term; for 100,000 that takes seconds, because the integers
have as many bits."""

BITS = 320


def _exact_p(n: int, fewer: int) -> float:
    """Return twice the probability of at most `fewer` heads in n throws."""
    tail, ways = 0, 1
    for i in range(fewer + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << n))


def _p_between(n: int, fewer: int) -> tuple[float, float]:
    """Return bounds of `_exact_p` from below and above, with integers of some hundred bits: nearly always the same
    float.

    The largest term is C(n, fewer); the others are added as parts of it, until they vanish. Every step rounds down, and
    less than 2^-200 of the sum is lost.
    """
    largest, exponent = 1 << BITS, -BITS
    for i in range(1, fewer + 1):
        largest = largest * (n - fewer + i) // i
        excess = largest.bit_length() - BITS
        if excess > 0:
            largest, exponent = largest >> excess, exponent + excess
    part = total = 1 << BITS
    for i in range(fewer):
        part = part * (fewer - i) // (n - fewer + i + 1)
        if not part:
            break
        total += part
    found, shift = largest * total, n - 1 - exponent + BITS
    low, high = (min(1.0, each / (1 << shift)) for each in (found, found + (found >> 200) + 1))
    return low, high


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Estimate a - b over the same rows. Two separate intervals must never be compared instead.

    Where few rows differ, two more rows are counted as differing, one in each direction and by as much (Bonett and
    Price 2012): n rows without a difference allow one of up to 2.8 / n. Differences of repeated samples have fat tails,
    too.
    """
    differences, shares = [x - y for x, y in zip(a, b, strict=True)], _shares([*a, *b])
    value, stderr = mean_stderr(differences)
    differing = [difference for difference in differences if difference]
    if len(differing) >= MANY:
        centre, half = value, Z * (stderr or 0.0)
    else:
        n, squares = len(differences) + 2, math.fsum(difference**2 for difference in differing)
        none = 1.0 if shares else max(*a, *b) - min(*a, *b)  # the largest difference of two rows
        far = squares / len(differing) if differing else none**2
        centre = math.fsum(differences) / n
        wide = Z if {abs(difference) for difference in differing} <= {1} else student(len(differences) - 1)
        half = wide * math.sqrt(((squares + 2 * far) / n - centre**2) / n)
    low, high = min(value, centre - half), max(value, centre + half)
    return Estimate(value, stderr, *((max(-1.0, low), min(1.0, high)) if shares else (low, high)))


def verdict_difference(only_a: int, only_b: int, same: int) -> Estimate:
    """Return `paired_difference` of right-or-wrong rows, bit for bit, from the numbers of rows that only a, only b, and
    both or neither have right."""
    count, differing = only_a + only_b + same, only_a + only_b
    value, stderr = (only_a - only_b) / count, None
    if count > 1:
        parts = ((only_a, 1.0), (only_b, -1.0), (same, 0.0))
        squares = float(sum(times * Fraction((each - value) ** 2) for times, each in parts))  # rounded as by fsum
        stderr = math.sqrt(squares / (count - 1) / count)
    if differing >= MANY:
        centre, half = value, Z * (stderr or 0.0)
    else:
        n = count + 2
        centre = (only_a - only_b) / n
        half = Z * math.sqrt(((differing + 2.0) / n - centre**2) / n)
    low, high = min(value, centre - half), max(value, centre + half)
    return Estimate(value, stderr, max(-1.0, low), min(1.0, high))


def _shares(values: Sequence[float]) -> bool:
    return all(0 <= value <= 1 for value in values)


def estimate(row_values: Sequence[float]) -> Estimate:
    """Return the mean over rows with its interval: Wilson's where every row is right or wrong (or all are equal
    shares), `share_interval` of other shares, else Student's."""
    (value, stderr), n = mean_stderr(row_values), len(row_values)
    if not _shares(row_values):
        return Estimate(value, stderr, *_student_interval(value, stderr, n))
    if not stderr or all(row_value in {0, 1} for row_value in row_values):
        return Estimate(value, stderr, *wilson(value, n))
    return Estimate(value, stderr, *share_interval(value, stderr, n))


def _student_interval(value: float, stderr: float | None, n: int) -> tuple[float, float]:
    half = student(n - 1) * stderr if stderr else 0.0
    return value - half, value + half


def corpus_estimate(
    function: Callable[[Mapping[str, float]], float], row_sums: Sequence[Mapping[str, float]], *, share: bool = False
) -> Estimate:
    """Estimate a function of sums over the whole corpus (a ratio, a perplexity, BLEU), with its standard error by the
    jackknife that leaves out one row at a time (Efron 1982), which is clustered by row and needs no formula for each
    function. A `share` stays between 0 and 1, and is not certain where all rows are right."""
    total: dict[str, float] = {}
    for sums in row_sums:
        for name, amount in sums.items():
            total[name] = total.get(name, 0.0) + amount
    value, n = function(total), len(row_sums)
    if n < 2:
        return Estimate(value, None, *(wilson(value, n) if share else (value, value)))
    without = [function({name: total[name] - sums.get(name, 0.0) for name in total}) for sums in row_sums]
    centre = fmean(without)
    stderr = math.sqrt((n - 1) / n * math.fsum((one - centre) ** 2 for one in without))
    return Estimate(value, stderr, *(share_interval if share else _student_interval)(value, stderr, n))


def _enough(n: int, c: int, k: int) -> None:
    if not 1 <= k <= n or not 0 <= c <= n:
        raise ValueError(f"k={k} of n={n} samples with c={c} right")
