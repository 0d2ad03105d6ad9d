"""The scores the console knows: the newest of each model on each kind of a benchmark, in what a matrix shows. Pure.

Tens of thousands of them are held, so each is a few numbers; what else a score says is asked for when it is looked at.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rwkvctl.protocol.views import MetricView, ScoreView

Key = tuple[str, str]
"""(benchmark, kind): a column of the matrix."""

SEARCHES: Final = "param_search_"


class Value(NamedTuple):
    """A metric with its 95 % interval; None if it could not be computed."""

    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = "share"


class Score(NamedTuple):
    """One cell. `missing` counts samples without a verdict, `notes` are what must be known with the score,
    `measured_as` is the name that its weights had then, where it is another."""

    job: str
    finished: str
    primary: str
    metrics: dict[str, Value]
    n: int = 0
    missing: int = 0
    partial: bool = False
    imported: bool = False
    notes: tuple[str, ...] = ()
    measured_as: str = ""

    def read(self, metric: str = "") -> Value | None:
        """Return a metric by its name; without a name the primary one."""
        return self.metrics.get(metric or self.primary)


@dataclass(slots=True)
class Book:
    """Scores by model and column. A model's cells are replaced, never changed: a row that has the same ones is the
    same. `complete` is false until all that there are have been read, `revision` counts changes."""

    models: dict[str, dict[Key, Score]] = field(default_factory=dict)
    complete: bool = False
    revision: int = 0

    @property
    def count(self) -> int:
        """Number of scores of all models."""
        return sum(map(len, self.models.values()))

    def take(self, views: Iterable[ScoreView]) -> None:
        """Add scores, in any order: of two one measured here wins over an imported one, one of all rows over one of
        some, and else the newer job."""
        changed: dict[str, dict[Key, Score]] = {}
        for view in views:
            model, key = sys.intern(view.model), (sys.intern(view.benchmark), sys.intern(view.kind))
            cells = changed.get(model) or self.models.get(model, {})
            found = score_of(view)
            if is_measurement(view) and is_newer(found, cells.get(key)):
                changed[model] = cells if model in changed else dict(cells)
                changed[model][key] = found
        self.models |= changed
        self.revision += bool(changed)

    def forget(self) -> None:
        """Forget all scores, because the store was replaced."""
        self.models, self.complete, self.revision = {}, False, self.revision + 1


def is_measurement(view: ScoreView) -> bool:
    """Return whether a score has a column: one of a kind that looks for settings, of a training set, or of a rewriting
    has none."""
    return not view.kind.startswith(SEARCHES) and not view.training and not view.source_job


def is_newer(found: Score, known: Score | None) -> bool:
    """Return whether a score replaces the known one of its model and column."""
    if known is None or found.imported != known.imported:
        return known is None or known.imported
    if found.partial != known.partial:  # a score of all rows is not hidden by a later one of some
        return known.partial
    return found != known and number(found.job) >= number(known.job)


def score_of(view: ScoreView) -> Score:
    """Return the part of a score that the matrix shows."""
    return Score(
        job=view.job,
        finished=view.finished,
        primary=sys.intern(view.primary),
        metrics={sys.intern(name): value_of(metric) for name, metric in view.metrics.items()},
        n=view.n,
        missing=view.errors + view.unjudged,
        partial=view.partial,
        imported="imported" in view.provenance,
        notes=(*([view.why_null] if view.why_null else []), *view.warnings),
        measured_as=sys.intern(view.measured_as),
    )


def value_of(metric: MetricView) -> Value:
    """Return a metric's value, its 95 % interval and its unit."""
    return Value(metric.value, metric.ci_low, metric.ci_high, sys.intern(metric.unit))


def number(job: str) -> int:
    """Return the number of a job id (12 for `j12`); 0 if it has none."""
    return int(job[1:]) if job[1:].isdecimal() else 0
