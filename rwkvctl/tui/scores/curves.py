"""The curve that the runs of one cell, or the checkpoints of one size, make. Pure."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from rwkvctl.scoreboard.book import Key, Value
from rwkvctl.scoreboard.matrix import MatrixRow
from rwkvctl.tui.scores.runs import ScoredRun
from rwkvctl.tui.widgets.chart import Point

LONGEST: Final = 40
"""Points of a curve at most, the newest."""
LARGEST: Final = 1e15
"""A value beyond it, such as the perplexity of a run that has diverged, is left out: it would flatten all others."""


class Curve(NamedTuple):
    """A curve with its title and its scale."""

    title: str
    points: list[Point]
    scale: tuple[float, float]


def pick(
    rows: Sequence[MatrixRow], row: MatrixRow, key: Key, runs: Sequence[ScoredRun], metric: str, *, over_runs: bool
) -> Curve:
    """The curve that is wanted, or the other one where that has but one point."""
    both = [of_checkpoints(rows, row, key, metric), of_runs(runs)]
    wanted, other = reversed(both) if over_runs else both
    return other if len(wanted.points) < 2 <= len(other.points) else wanted


def of_runs(runs: Sequence[ScoredRun]) -> Curve:
    """The score over the runs of one cell, oldest first."""
    found = [(run.score.read(), run.view.finished[5:10]) for run in reversed(runs)]
    return curve("over its runs", [(read, label) for read, label in found if read is not None])


def of_checkpoints(rows: Sequence[MatrixRow], row: MatrixRow, key: Key, metric: str = "") -> Curve:
    """The score over the checkpoints of a model's size, oldest first."""
    found: list[tuple[Value, str]] = []
    for one in reversed(rows):
        score = one.cells.get(key) if one.size == row.size else None
        if score is not None and (read := score.read(metric)):
            found.append((read, label(one)))
    size = "of no known size" if row.size is None else f"of {row.size:g}b"
    return curve(f"over the checkpoints {size}", found)


def label(row: MatrixRow) -> str:
    """Return the short name of a checkpoint under the axis."""
    return " ".join(filter(None, (row.version, row.date[4:]))) or row.name[-8:]


def curve(title: str, found: Sequence[tuple[Value, str]]) -> Curve:
    """Points with their intervals; a share as a percentage, on a scale that ends at round numbers."""
    known = [(read, word) for read, word in found if is_drawable(read)][-LONGEST:]
    factor = 100.0 if all(read.unit == "share" for read, _ in known) else 1.0
    points = [
        Point(factor * (read.value or 0.0), times(factor, read.low), times(factor, read.high), word)
        for read, word in known
    ]
    return Curve(title, points, rounded(points))


def is_drawable(read: Value) -> bool:
    """Whether a value and its interval, if it has one, are finite numbers of a size that a scale can have."""
    numbers = [number for number in (read.value, read.low, read.high) if number is not None]
    return read.value is not None and all(abs(number) <= LARGEST for number in numbers)


def times(factor: float, number: float | None) -> float | None:
    """Return a number times a factor; None stays None."""
    return None if number is None else factor * number


def rounded(points: Sequence[Point]) -> tuple[float, float]:
    """Return the range of the scale: round numbers around all points and their intervals."""
    if not points:
        return 0.0, 1.0
    low = min(point.value if point.low is None else point.low for point in points)
    high = max(point.value if point.high is None else point.high for point in points)
    if math.isclose(low, high):
        width = max(1.0, 10.0 ** (math.floor(math.log10(max(abs(high), 1.0))) - 3))
        top = width * math.ceil(high / width) if high else width
        return top - width, top
    step: float = 10.0 ** math.floor(math.log10(max(high - low, 1e-6)))
    return step * math.floor(low / step), step * math.ceil(high / step)
