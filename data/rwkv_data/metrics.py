"""Statistics of samples, in the standard library alone. A score is null, with a reason, unless all samples are graded.

Samples of one row are no independent draws: the standard error of a repeated benchmark is that of the rows' means,
which for equal repeats is the error clustered by row.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

from rwkv_data.benchmark import Kind, Row

Z = NormalDist().inv_cdf(0.975)


class Estimate(NamedTuple):
    """A value with its standard error (None from a single row) and its 95 % interval."""

    value: float
    stderr: float | None
    ci_low: float
    ci_high: float


class Sample(NamedTuple):
    """What a score needs to know of one graded sample. `stop` is `Kind.stop(answer)`, the rest the Grade's."""

    row: int
    repeat: int
    value: float | None
    stop: str
    extracted: str | None
    reason: str


def mean_stderr(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and its standard error s/sqrt(n), s with n - 1."""
    n, mean = len(values), fmean(values)
    if n < 2:
        return mean, None
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def wilson(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Interval of a proportion: never leaves [0, 1], and has a width at 0 % and 100 % too."""
    d = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / d
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / d
    # At 0 % and 100 % an end of the interval is the share itself, which rounding must not cut off.
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))


def clustered_stderr(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """Standard error of the mean of values that come in clusters, of whatever sizes (Miller 2024, arXiv 2411.00640)."""
    mean, sums = fmean(values), dict.fromkeys(clusters, 0.0)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - mean
    count = len(sums)
    if count < 2:
        return None
    return math.sqrt(count / (count - 1) * math.fsum(total**2 for total in sums.values())) / len(values)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, of which c are right, hold a right one: 1 - C(n-c, k) / C(n, k)."""
    _enough(n, c, k)
    all_wrong: float = math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
    return 1.0 if n - c < k else 1.0 - all_wrong


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, of which c are right, are all right: C(c, k) / C(n, k)."""
    _enough(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def avg_at_k(values: Sequence[float], k: int) -> float:
    """Mean of the first k samples."""
    _enough(len(values), 0, k)
    return fmean(values[:k])


def maj_at_k(votes: Sequence[Hashable | None], values: Sequence[float], k: int) -> float:
    """Value of the most frequent answer among the first k; on a tie the mean over the tied ones. None is no vote.

    Equal votes must mean equal answers (classes of the grader, not raw text), and have equal values.
    """
    _enough(len(votes), 0, k)
    value_of = {vote: value for vote, value in zip(votes[:k], values[:k], strict=True) if vote is not None}
    counts = {vote: list(votes[:k]).count(vote) for vote in value_of}
    top = max(counts.values(), default=0)
    return fmean([value_of[vote] for vote, count in counts.items() if count == top]) if counts else 0.0


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p of discordant pairs: rows that only a, and only b, has right."""
    n, tail, ways = only_a + only_b, 0, 1
    for i in range(min(only_a, only_b) + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << n))


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """a - b over the same rows. Two separate intervals must never be compared instead."""
    value, stderr = mean_stderr([x - y for x, y in zip(a, b, strict=True)])
    half = Z * (stderr or 0.0)
    return Estimate(value, stderr, max(-1.0, value - half), min(1.0, value + half))


def estimate(row_values: Sequence[float]) -> Estimate:
    """Mean over rows with its interval: Wilson where every row is right or wrong (or all are alike), else normal."""
    value, stderr = mean_stderr(row_values)
    if not stderr or all(row_value in {0, 1} for row_value in row_values):
        return Estimate(value, stderr, *wilson(value, len(row_values)))
    return Estimate(value, stderr, max(0.0, value - Z * stderr), min(1.0, value + Z * stderr))


def score(kind: Kind, samples: Iterable[Sequence[Any]], rows: Sequence[Row] | None = None) -> dict[str, Any]:
    """The score of a kind as plain JSON values.

    With `rows` (those that were asked) missing samples are noticed, and the chance level and the groups are known.
    `metrics` holds, for each name, value, stderr, ci_low, ci_high; all null if `reason` says why there is no score.
    """
    graded = sorted((Sample(*sample) for sample in samples), key=lambda sample: sample[:2])
    by_row = {row: list(group) for row, group in groupby(graded, key=lambda sample: sample.row)}
    reason = _why_null(kind, graded, by_row, rows)
    values = {} if reason else {row: [s.value or 0.0 for s in group] for row, group in by_row.items()}
    return {
        "primary": kind.metrics[0],
        "metrics": {name: _measure(name, values)._asdict() if values else _NULL for name in kind.metrics},
        "reason": reason,
        "n": len(graded),
        "rows": len(by_row),
        "repeats": kind.repeats,
        "truncated": sum(sample.stop == "length" for sample in graded),
        "no_answer": sum(sample.reason == "no_answer" for sample in graded),
        "errors": sum(sample.value is None for sample in graded),
        "chance": _chance(kind, rows),
        **_groups(kind, values, rows),
    }


_NULL = {"value": None, "stderr": None, "ci_low": None, "ci_high": None}


def _measure(name: str, values: Mapping[int, Sequence[float]]) -> Estimate:
    """One metric over rows of equally many samples."""
    what, _, number = name.partition("@")
    k = int(number or 0)
    match what:
        case "accuracy":
            per_row = [fmean(row) for row in values.values()]
        case "avg":
            per_row = [avg_at_k(row, k) for row in values.values()]
        case "pass":
            per_row = [pass_at_k(len(row), sum(value == 1 for value in row), k) for row in values.values()]
        case _:
            raise ValueError(f"no metric is called {name!r}")
    return estimate(per_row)


def _why_null(
    kind: Kind, graded: Sequence[Sample], by_row: Mapping[int, Sequence[Sample]], rows: Sequence[Row] | None
) -> str | None:
    """Why there is no score, as a sentence, or None."""
    if not graded:
        return "there are no samples"
    if twice := len(graded) - len({sample[:2] for sample in graded}):
        return f"{twice} samples are there twice"
    if ungraded := [sample.reason for sample in graded if sample.value is None]:
        reasons = ", ".join(f"{ungraded.count(reason)} {reason}" for reason in sorted(set(ungraded)))
        return f"{len(ungraded)} of {len(graded)} samples have no grade ({reasons})"
    due = kind.repeats * (len(by_row) if rows is None else len(rows))
    if len(graded) != due or any(len(group) != kind.repeats for group in by_row.values()):
        return f"{len(graded)} of {due} samples are there"
    return None


def _chance(kind: Kind, rows: Sequence[Row] | None) -> float | None:
    """What blind choosing would get: the mean of 1 / (number of choices)."""
    levels = [level for row in rows or () if (level := kind.chance(row)) is not None]
    return fmean(levels) if levels else None


def _groups(kind: Kind, values: Mapping[int, Sequence[float]], rows: Sequence[Row] | None) -> dict[str, Any]:
    """Mean and number of rows of each group (subject), and `macro`, the plain mean of the groups' means."""
    if not (kind.group_by and rows and values):
        return {}
    members: dict[str, list[float]] = {}
    for index, row_values in values.items():
        members.setdefault(str(rows[index].get(kind.group_by, "")), []).append(fmean(row_values))
    groups = {name: {"value": fmean(means), "rows": len(means)} for name, means in sorted(members.items())}
    return {"groups": groups, "macro": fmean(fmean(means) for means in members.values())}


def _enough(n: int, c: int, k: int) -> None:
    if not 1 <= k <= n or not 0 <= c <= n:
        raise ValueError(f"k={k} of n={n} samples with c={c} right")
