"""Paired tests of two runs over the same rows, with the standard library alone.

Differences are always b - a, so that a positive one says that b is better. Two separate intervals are never compared:
only pairing removes the variance of rows that are easy or hard for both runs.
"""

import math
import random
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Literal, NamedTuple

from rwkv_data.scoring import metric_names
from rwkv_data.scoring.metric_names import Sample, SamplesByRow
from rwkv_data.scoring.statistics import MANY, Estimate, mcnemar, paired_difference, verdict_difference

DRAWS = 10_000
SEED = 0
GRID = 128
"""Bins for differences of many distinct values; see `binned`."""

Test = Literal["mcnemar", "bootstrap"]
PairedVerdict = Literal["better", "worse", "no difference shown"]


class PairedComparison(NamedTuple):
    """Two runs on the same rows. `only_a` and `only_b` count the rows on which one of them did better.

    The interval of `difference` is the bootstrap's percentiles where that is the test and many rows differ, else that
    of `paired_difference`.
    """

    rows: int
    a: float
    b: float
    difference: Estimate
    only_a: int
    only_b: int
    test: Test
    p: float


class BootstrapResult(NamedTuple):
    """95 % percentile interval of a mean difference, and the two-sided p of its being zero."""

    ci_low: float
    ci_high: float
    p: float


def row_values(metric: str, rows: SamplesByRow) -> list[float]:
    """Return the value of each row, whose mean is the metric. Raises ValueError for an unknown metric.

    A measure of the whole corpus is no mean over rows; there a row's value is the change of the measure without it (the
    jackknife's influence values, Efron 1982), added to the measure itself.
    """
    found = RowValues(metric)
    for row in rows:
        found.add(row)
    return list(found.all())


class RowValues:
    """Computes `row_values` of rows that are added one by one, with a few bytes of memory each."""

    def __init__(self, metric: str) -> None:
        self.metric, self.count = metric, 0
        self.of = metric_names.CORPUS[metric].of if metric in metric_names.CORPUS else None
        self.values = array("d")
        self.total: dict[str, float] = {}
        self.own: dict[str, array[float]] = {}

    def add(self, row: Sequence[Sample]) -> None:
        """Add the next row. Raises ValueError, KeyError or ArithmeticError if it does not give the metric."""
        if self.of is None:
            self.values.append(metric_names.per_row(self.metric, row))
        else:
            self._add_sums(row)
        self.count += 1

    def _add_sums(self, row: Sequence[Sample]) -> None:
        for sample in row:
            for name, amount in sample.parts.items():
                self.total[name] = self.total.get(name, 0.0) + amount
        sums = summed(row)
        for name in sums.keys() - self.own.keys():
            self.own[name] = array("d", bytes(8 * self.count))
        for name, before in self.own.items():
            before.append(sums.get(name, 0.0))

    def all(self) -> Sequence[float]:
        """Return the values of all rows. Raises KeyError or ArithmeticError if they do not give the metric."""
        of, total = self.of, self.total
        if of is None:
            return self.values
        if self.count < 2:
            return array("d", [of(total)])
        without = array("d")
        for place in range(self.count):
            without.append(of({name: amount - self.own[name][place] for name, amount in total.items()}))
        middle = fmean(without)
        return array("d", [of(total) + (self.count - 1) * (middle - one) for one in without])


def summed(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the parts of the samples' grades, summed by name."""
    sums: dict[str, float] = {}
    for sample in samples:
        for name, amount in sample.parts.items():
            sums[name] = sums.get(name, 0.0) + amount
    return sums


def lower_is_better(metric: str) -> bool:
    """Whether a smaller value is the better one: bits per byte, perplexities."""
    return metric_names.unit(metric) in {"bits", "perplexity"}


def alike(one: str, other: str) -> bool:
    """Whether two metrics measure the same: all means of verdicts do, whatever their numbers of samples."""
    return one == other or all(name in {"accuracy", "pass@1"} or name.startswith("avg@") for name in (one, other))


def pair(a: Sequence[float], b: Sequence[float], *, verdicts: bool) -> PairedComparison:
    """Compare the rows' values. `verdicts` says that each is one right or wrong answer: then the test is exact."""
    estimate = paired_difference(b, a)
    only_a = sum(x > y for x, y in zip(a, b, strict=True))
    only_b = sum(x < y for x, y in zip(a, b, strict=True))
    if verdicts and {*a, *b} <= {0, 1}:
        return PairedComparison(
            len(a), fmean(a), fmean(b), estimate, only_a, only_b, "mcnemar", mcnemar(only_a, only_b)
        )
    found = bootstrap([y - x for x, y in zip(a, b, strict=True)])
    if only_a + only_b >= MANY:
        estimate = estimate._replace(ci_low=found.ci_low, ci_high=found.ci_high)
    return PairedComparison(len(a), fmean(a), fmean(b), estimate, only_a, only_b, "bootstrap", found.p)


def pair_verdicts(both: int, only_a: int, only_b: int, neither: int) -> PairedComparison:
    """Return `pair` of rows with one right or wrong answer each, from the numbers of rows that both have right, one, or
    neither."""
    rows = both + only_a + only_b + neither
    difference = verdict_difference(only_b, only_a, both + neither)
    shares = ((both + only_a) / rows, (both + only_b) / rows)
    return PairedComparison(rows, *shares, difference, only_a, only_b, "mcnemar", mcnemar(only_a, only_b))


def bootstrap(differences: Sequence[float], draws: int = DRAWS, seed: int = SEED) -> BootstrapResult:
    """Resample rows with replacement; the same seed gives the same answer.

    p is 2 min(P(mean <= 0), P(mean >= 0)) with the observed sample counted among the draws (Davison and Hinkley 1997,
    4.2), so it is never 0. It is also never below what n rows that differ can show at all, 2 / 2^n, which is the least
    p of the sign-flip test: resampling three rows that all moved the same way would "prove" anything.
    """
    means = sorted(resampled_means(differences, draws, random.Random(seed)))
    differing = sum(difference != 0 for difference in differences)
    below, above = bisect_right(means, 0.0), sum(mean >= 0 for mean in means)
    p = 2 * (min(below, above) + 1) / (draws + 1)
    return BootstrapResult(quantile(means, 0.025), quantile(means, 0.975), min(1.0, max(p, 2.0 ** (1 - differing))))


def resampled_means(differences: Sequence[float], draws: int, source: random.Random) -> Iterator[float]:
    """Yield means of resamples. How often each distinct value is drawn is multinomial, so a resample costs as many
    random numbers as there are values, not rows: 14,042 right-or-wrong rows have three."""
    count = len(differences)
    weights: Mapping[float, float] = Counter(differences)
    if len(weights) > GRID and count > 2 * GRID:
        weights = binned(differences)
    if len(weights) * 2 > count:
        for _ in range(draws):
            yield math.fsum(source.choices(differences, k=count)) / count
        return
    values, shares = list(weights), conditional_shares(list(weights.values()))
    for _ in range(draws):
        drawn = multinomial(source, count, shares)
        yield math.fsum(value * times for value, times in zip(values, drawn, strict=True)) / count


def binned(values: Sequence[float]) -> dict[float, float]:
    """Bin values on an even grid, each divided between its two neighbours so that the mean stays exact (linear binning,
    Wand 1994). The variance grows by at most a quarter of the squared grid step: 0.2 % of it where the values fill a
    tenth of their range."""
    low, step = min(values), (max(values) - min(values)) / (GRID - 1)
    weights = [0.0] * GRID
    for value in values:
        place = min((value - low) / step, GRID - 1)
        left = min(int(place), GRID - 2)
        weights[left] += left + 1 - place
        weights[left + 1] += place - left
    return {low + step * index: weight for index, weight in enumerate(weights) if weight > 0}


def conditional_shares(weights: Sequence[float]) -> list[float]:
    """Return the share of each value among it and those after it, for a multinomial draw as a chain of binomial
    ones."""
    rest = list(accumulate(reversed(weights)))[::-1]
    return [min(1.0, weight / left) for weight, left in zip(weights, rest, strict=True)]


def multinomial(source: random.Random, count: int, shares: Sequence[float]) -> list[int]:
    """Return how often each value is drawn in `count` draws."""
    drawn = []
    for share in shares[:-1]:
        times = binomial(source, count, share) if count else 0
        drawn.append(times)
        count -= times
    return [*drawn, count]


def binomial(source: random.Random, n: int, p: float) -> int:
    """Return a binomial random number (Python has one from 3.12 on): by waiting times where few successes are expected,
    else by transformed rejection with squeeze (BTRS; Hörmann 1993, "The generation of binomial random variates")."""
    if p > 0.5:
        return n - binomial(source, n, 1 - p)
    if n * p < 10:
        return by_waiting(source, n, p)
    spread = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a, c, squeeze = -0.0873 + 0.0248 * b + 0.01 * p, n * p + 0.5, 0.92 - 4.2 / b
    while True:
        u = source.random() - 0.5
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + c) if us else -1
        if not 0 <= k <= n:
            continue
        v = 1 - source.random()
        if us >= 0.07 and v <= squeeze:
            return k
        mode, odds = math.floor((n + 1) * p), math.log(p / (1 - p))
        bound = math.lgamma(mode + 1) + math.lgamma(n - mode + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        if math.log(v * (2.83 + 5.1 / b) * spread / (a / (us * us) + b)) <= bound + (k - mode) * odds:
            return k


def by_waiting(source: random.Random, n: int, p: float) -> int:
    """Return a binomial random number as the count of geometric waiting times that fit into n (Devroye 1986, X.4)."""
    if p <= 0:
        return 0
    scale, place, found = math.log1p(-p), 0, 0
    while True:
        wait = math.log(1 - source.random()) / scale
        place += math.floor(wait) + 1 if wait < n else n + 1
        if place > n:
            return found
        found += 1


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, linear between neighbours."""
    place = share * (len(ordered) - 1)
    left = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    right = min(left + 1, len(ordered) - 1)
    return ordered[left] + (place - left) * (ordered[right] - ordered[left])


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p values of a family of tests (Holm 1979): below alpha where the family's error rate stays
    below it."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def verdict(difference: float, p: float, alpha: float, *, lower: bool = False) -> PairedVerdict:
    """Return the verdict on b from an adjusted p and the sign of b - a; `lower` says that a smaller value is better."""
    if p >= alpha or not difference:
        return "no difference shown"
    return "better" if (difference > 0) != lower else "worse"
