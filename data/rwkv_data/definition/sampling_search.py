"""Searching for sampling settings: a grid of points, a race that stops bad ones early, and what the search says.

Every point answers the same rows with the same random keys, so points are compared row by row. After each rung (so many
rows) those points go that are worse than the best one with 95 % confidence (a paired z-test, Bonferroni over the points
still in the race; the idea is Maron and Moore's, "Hoeffding races", 1994), and of the others at most the share `keep`,
best first, goes on (successive halving, Jamieson and Talwalkar 2016). The last rung is the whole set.

The best of many points is better than it is: what a search reports of it is optimistic. It is therefore run on the rows
set aside for it (`part` "search"), and the point it chose is measured on the others ("report").
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Any

from rwkv_data.definition.errors import SettingError
from rwkv_data.scoring.statistics import estimate, mean_stderr

ALPHA = 0.05
MOST_POINTS = 4096

RWKV_SKILLS_GRID: Mapping[str, tuple[str, ...]] = {
    "temperature": ("0.3", "0.4", "0.6", "0.8"),
    "top_p": ("0.3", "0.4", "0.5", "0.6"),
    "presence": ("0.5", "1", "1.5", "2"),
    "frequency": ("0.1", "0.3", "0.5"),
    "decay": ("0.99",),
}
"""rwkv-skills' 192 points, in its order: the last name varies fastest."""

PointValues = Mapping[int, Mapping[int, float]]
"""The value of each row, by point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A grid over the sampling of one stage; `rungs` are the numbers of rows after which points are dropped."""

    stage: str
    grid: Mapping[str, tuple[str, ...]]
    rungs: tuple[int, ...] = (32, 96, 224)
    keep: float = 0.5

    @property
    def points(self) -> list[dict[str, str]]:
        """Return the settings of every point, under their full names."""
        names = [f"{self.stage}.{name}" for name in self.grid]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.grid.values())]

    def configuration(self) -> dict[str, Any]:
        """Return what enters the generation key: stage, grid, rungs and share kept."""
        grid = {name: list(values) for name, values in self.grid.items()}
        return {"stage": self.stage, "grid": grid, "rungs": list(self.rungs), "keep": self.keep}


def with_grid(text: str, name: str) -> tuple[str, ...]:
    """Return the values of one name of a grid, given as `0.3,0.5`."""
    values = tuple(value.strip() for value in text.split(",") if value.strip())
    if not values:
        raise SettingError(f"{name}={text!r} lists no values; write them as 0.3,0.5")
    return values


def survivors(search: Search, point_values: PointValues, live: Collection[int]) -> list[int]:
    """Return the points that go on after a rung that all live points have finished: the best one, and those that may be
    as good."""
    means = {point: fmean(values) if (values := point_values.get(point, {}).values()) else 0.0 for point in live}
    ranked = sorted(live, key=lambda point: (-means[point], point))
    best = ranked[0]
    level = NormalDist().inv_cdf(1 - ALPHA / max(1, len(ranked) - 1))
    known = {point: point_values.get(point, {}) for point in live}
    able = [point for point in ranked if point == best or not _worse(known[point], known[best], level)]
    return sorted(able[: max(1, math.ceil(len(ranked) * search.keep))])


def _worse(values: Mapping[int, float], best: Mapping[int, float], level: float) -> bool:
    """Whether a point is worse than the best one by more than chance explains, over the rows that both have."""
    # One row more on which they are alike: a difference that never varied has an error too.
    differences = [0.0, *(values[row] - best[row] for row in values.keys() & best.keys())]
    mean, stderr = mean_stderr(differences)
    return bool(stderr) and mean < -level * (stderr or 0.0)


def summary(
    search: Search, point_values: PointValues, rows: int, seen: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """Return what the search found: every point with its mean, interval and number of rows. `best` is the index of the
    best point among those that went through all rows. `seen` says how many rows each point went through, including
    errors, which have no value. The value of the best point is optimistic: it was chosen as the highest of many."""
    points = []
    for index, settings in enumerate(search.points):
        values = list(point_values.get(index, {}).values())
        found = estimate(values)._asdict() if values else {}
        whole = (seen or {}).get(index, len(values)) == rows
        points.append({"point": index, "settings": settings, "rows": len(values), "whole": whole, **found})
    went = seen if seen is not None else {index: len(values) for index, values in point_values.items()}
    finished = [point for point in points if point["rows"] and went.get(point["point"], 0) == rows]
    best = max(finished, key=lambda point: (point["value"], -point["point"]), default=None)
    return {"points": points, "best": best["point"] if best else None}


def shared_best(summaries: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], float] | None:
    """The point with the highest sum of values over several searches, among those that went through all of each; None
    if no point did. Ties go to the first. Raises SettingError if the searches have other grids."""
    tables = [{tuple(sorted(point["settings"].items())): point for point in summary["points"]} for summary in summaries]
    if not tables or any(table.keys() != tables[0].keys() for table in tables):
        raise SettingError("the searches have different grids, so no point is in all of them")
    shared = {
        key: math.fsum(table[key]["value"] for table in tables)
        for key in tables[0]
        if all(table[key]["whole"] and table[key]["rows"] for table in tables)
    }
    if not shared:
        return None
    key = max(shared, key=lambda one: shared[one])
    return dict(key), shared[key]
