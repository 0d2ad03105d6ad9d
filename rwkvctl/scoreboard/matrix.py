"""Models x benchmarks: which rows and columns there are, and what a row says. Pure.

A statistic is never computed here: differences, tests and verdicts are the daemon's. A mean is one over benchmarks that
every model shown has, or none is shown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rwkvctl.protocol.endpoints import WRITER, path_of
from rwkvctl.protocol.states import ACTIVE
from rwkvctl.protocol.views import BenchmarkView, ComparisonView, JobView, ModelView
from rwkvctl.scoreboard.book import Key, Score

Verdicts = Mapping[Key, ComparisonView]
NONE: Final[dict[Key, ComparisonView]] = {}


class MatrixRow(NamedTuple):
    """A model: what its name says, its scores, what of it runs now (the share that is done), and what comparing it with
    `base` showed; None while nobody has asked."""

    name: str
    size: float | None = None
    version: str = ""
    date: str = ""
    base: str = ""
    cells: Mapping[Key, Score] = {}
    running: Mapping[Key, float] = {}
    verdicts: Verdicts | None = None


class Choice(NamedTuple):
    """What of the matrix is shown: one domain's benchmarks, models of one size, one metric; nothing chosen: all, and
    the headlines. `baseline` is the model that all are compared with; without one each has the one
    that is pinned for it, or the one before it."""

    domain: str = ""
    size: float | None = None
    metric: str = ""
    baseline: str = ""
    intervals: bool = False


def rows_of(
    models: Sequence[ModelView],
    scores: Mapping[str, Mapping[Key, Score]],
    running: Mapping[str, Mapping[Key, float]],
    compared: Mapping[tuple[str, str], Verdicts],
    choice: Choice,
) -> list[MatrixRow]:
    """A row for each model that has a score or is being measured, the newest first."""
    known = {model.name: model for model in models}
    places = {model.name: place for place, model in enumerate(models)}
    names = sorted(
        scores.keys() | running.keys(),
        key=lambda name: (made(known.get(name), scores.get(name, {})), places.get(name, -1), name),
        reverse=True,
    )
    found = (row_of(name, known.get(name), scores.get(name, {}), running.get(name, {}), choice) for name in names)
    return [
        row._replace(verdicts=compared.get((row.base, row.name)))
        for row in found
        if choice.size is None or row.size == choice.size
    ]


def row_of(
    name: str, model: ModelView | None, cells: Mapping[Key, Score], running: Mapping[Key, float], choice: Choice
) -> MatrixRow:
    """Return the row of one model with its base, without comparisons."""
    if model is None:
        return MatrixRow(name, base=base_of(name, "", choice), cells=cells, running=running)
    base = base_of(name, model.baseline or model.previous, choice)
    return MatrixRow(name, model.parameters_b, model.data_version, model.date, base, cells, running)


def base_of(name: str, previous: str, choice: Choice) -> str:
    """Return the model to compare with; empty for the baseline itself."""
    return "" if choice.baseline == name else choice.baseline or previous


def made(model: ModelView | None, cells: Mapping[Key, Score]) -> str:
    """Return the date of a model as YYYYMMDD: the one in its name, else the day it was first measured."""
    if model is not None and model.date:
        return model.date
    return min((score.finished for score in cells.values()), default="")[:10].replace("-", "")


def running_of(jobs: Iterable[JobView], training: Collection[str] = ()) -> dict[str, dict[Key, float]]:
    """Return the completed fraction of each running job, by model and column; those of training sets, and
    rewritings, have no column."""
    found: dict[str, dict[Key, float]] = {}
    for job in jobs:
        if job.state in ACTIVE and job.benchmark not in training and job.weights != path_of(WRITER):
            found.setdefault(job.model, {})[job.benchmark, job.kind] = job.done / job.total if job.total else 0.0
    return found


def keys_of(rows: Iterable[MatrixRow], domains: Mapping[str, str], domain: str = "") -> list[Key]:
    """Return the columns: every (benchmark, kind) that a row has a score or a running job of, limited to one domain if
    one is chosen."""
    found = {key for row in rows for key in (*row.cells, *row.running)}
    return sorted(key for key in found if not domain or domains.get(key[0]) == domain)


def domains_of(benchmarks: Iterable[BenchmarkView]) -> dict[str, str]:
    return {benchmark.name: benchmark.domain for benchmark in benchmarks}


def titles_of(keys: Sequence[Key]) -> dict[Key, str]:
    """Return the column titles: the benchmark, with its kind if it has several columns."""
    kinds: dict[str, int] = {}
    for name, _ in keys:
        kinds[name] = kinds.get(name, 0) + 1
    return {key: key[0] if kinds[key[0]] == 1 else f"{key[0]}·{key[1]}" for key in keys}


def metrics_of(rows: Iterable[MatrixRow]) -> list[str]:
    """Return the names of all metrics in the rows, sorted."""
    return sorted({name for row in rows for score in row.cells.values() for name in score.metrics})


def shared(rows: Iterable[MatrixRow], keys: Sequence[Key], metric: str = "") -> list[Key]:
    """Return the columns in which every row that has scores has a share: a mean may be taken over these."""
    scored = [row.cells for row in rows if row.cells]
    left = list(keys) if scored else []
    for cells in scored:
        left = [
            key for key in left
            if (score := cells.get(key)) and (read := score.metrics.get(metric or score.primary))
            and read.value is not None and read.unit == "share"
        ]  # fmt: skip
    return left


def mean(row: MatrixRow, keys: Sequence[Key], metric: str = "") -> float | None:
    """Return the unweighted mean of a metric over the columns in which the row has a value; None if there is none."""
    found = [row.cells[key].read(metric) for key in keys if key in row.cells]
    values = [read.value for read in found if read is not None and read.value is not None]
    return sum(values) / len(values) if values else None


def verdict_of(row: MatrixRow, key: Key) -> ComparisonView | None:
    """Return the comparison of the score that is shown; None if there is none or it is about an older run of the
    model."""
    found = (row.verdicts or NONE).get(key)
    score = row.cells.get(key)
    if found is None or score is None:
        return None
    return found if found.job_b in {score.job, ""} else None


def gain(view: ComparisonView) -> float:
    """Return by how much B is better, negative if it is worse, whichever direction is better; 0.0 if unknown."""
    value = view.difference.value if view.difference else None
    return (-value if view.lower_is_better else value) if value is not None else 0.0


def worst_first(views: Iterable[ComparisonView]) -> list[ComparisonView]:
    """Sort comparisons: the largest losses first, those without a difference last."""
    return sorted(views, key=lambda view: (view.difference is None, gain(view), view.benchmark, view.kind))


def worst(row: MatrixRow, keys: Iterable[Key]) -> ComparisonView | None:
    """Return the comparison of the shown column that lost most against the base; None if none lost."""
    found = (verdict_of(row, key) for key in keys)
    lost = worst_first(view for view in found if view is not None and view.difference is not None and gain(view) < 0)
    return lost[0] if lost else None


def pair_of(rows: Sequence[MatrixRow], chosen: str, marked: Iterable[str]) -> list[str]:
    """The older and the newer of the two models that are meant: the marked ones; one marked and the chosen one; else
    the chosen one and its base, or where it has none the next older one. Empty where that is no pair."""
    names = [row.name for row in rows]
    meant = list(marked)
    if chosen in names and meant in ([], [chosen]):
        place = names.index(chosen)
        base = rows[place].base or next(iter(names[place + 1 :]), "")
        return [base, chosen] if base else []
    pair = sorted({*meant, *([chosen] if len(meant) == 1 else [])} & set(names), key=names.index, reverse=True)
    return pair if len(pair) == 2 else []


class BenchmarkGroup(NamedTuple):
    """A menu entry that narrows the matrix: its label and the fields of Choice it changes."""

    words: str
    changes: dict[str, Any]


def groups(
    models: Iterable[ModelView], scores: Mapping[str, Mapping[Key, Score]], domains: Mapping[str, str]
) -> list[BenchmarkGroup]:
    """Return an entry for everything, for each domain that has a score, and for each model size that has one."""
    names = {name for cells in scores.values() for name, _ in cells}
    found = sorted({domains.get(name, "") for name in names} - {""})
    sizes = sorted({model.parameters_b for model in models if model.name in scores and model.parameters_b is not None})
    return [
        BenchmarkGroup("everything", {"domain": "", "size": None}),
        *(BenchmarkGroup(domain, {"domain": domain}) for domain in found),
        *(BenchmarkGroup(f"models of {size:g}b", {"size": size}) for size in sizes),
    ]
