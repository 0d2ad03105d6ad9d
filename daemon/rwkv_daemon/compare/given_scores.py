"""Scores that were given as numbers alone: checking them, and storing each as a finished job without samples."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rwkv_daemon.changes.change import Change
from rwkv_daemon.rules.plan import SelectionError, near, slug
from rwkv_daemon.rules.work_keys import GIVEN, IMPORTED, digest
from rwkv_daemon.store import NewJob
from rwkv_daemon.store.queries.jobs import add_job, as_json, update_job, work_of
from rwkv_daemon.store.queries.samples import add_score
from rwkv_daemon.store.wall_time import now
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.scoring import metric_names, paired_tests
from rwkv_data.scoring.statistics import wilson
from rwkvctl import __version__
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.training.baselines import BaselineAdd, GivenScore
from rwkvctl.protocol.views import MetricView, ScoreView

MODEL: Final = re.compile(r"(?!(?:j\d+|builtin)\Z)\w[\w.+-]{0,159}")
MOST_ROWS: Final = 10**7
WARNING: Final = "given without samples: its interval is from N alone"


@dataclass(frozen=True, slots=True)
class GivenRun:
    """The given metrics of one benchmark and kind, the headline first."""

    benchmark: str
    kind: str
    metrics: Mapping[str, float]
    n: int

    def key(self, model: str, program: str) -> str:
        """Return what identifies the numbers: the same ones again are no new score."""
        numbers = [f"{name}={value!r}" for name, value in sorted(self.metrics.items())]
        return digest(GIVEN, program, model, self.benchmark, self.kind, self.n, numbers)


def check_name(name: str) -> None:
    """Raise RefusedError for a name that no model can have."""
    if not MODEL.fullmatch(name):
        text = (
            f"{name or 'an empty name'} cannot be the name of a model: use letters, digits, dots, dashes, underscores."
        )
        hint = "For Org/Name the name alone; j12 would be a job, and builtin is the built-in model."
        raise RefusedError("bad-request", text, hint, Exit.USAGE)


def runs_of(scores: Sequence[GivenScore], catalogue: Mapping[str, Benchmark]) -> list[GivenRun]:
    """Return the scores by benchmark and kind. Raises RefusedError that names the place of what is wrong."""
    found: dict[tuple[str, str], dict[str, GivenScore]] = {}
    for score in scores:
        benchmark, metrics = checked(score, catalogue)
        same = found.setdefault((benchmark, score.kind), {})
        if any(paired_tests.alike(score.metric, one) for one in same):
            raise wrong(score, f"{benchmark} {score.kind} has {score.metric} twice")
        other = next(iter(same.values()), score)
        if other.n != score.n:
            raise wrong(score, f"n is {score.n:,}, and {other.n:,} for {other.metric} of the same run")
        same[score.metric] = score
        found[benchmark, score.kind] = dict(sorted(same.items(), key=lambda item: place_of(item[0], metrics)))
    return [
        GivenRun(*key, {name: score.value for name, score in same.items()}, next(iter(same.values())).n)
        for key, same in found.items()
    ]


def place_of(metric: str, metrics: Sequence[str]) -> int:
    """Return where a kind has a metric; its headline is the first."""
    return next(number for number, one in enumerate(metrics) if paired_tests.alike(metric, one))


def checked(score: GivenScore, catalogue: Mapping[str, Benchmark]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a score's benchmark and the metrics of its kind. Raises RefusedError."""
    try:
        benchmark = slug(score.benchmark, set(catalogue), "benchmark")
    except SelectionError:
        text = f"there is no benchmark {score.benchmark!r}{near(score.benchmark, catalogue)}"
        raise wrong(score, f"{text}; `rwkvctl benchmarks` lists them") from None
    kinds = catalogue[benchmark].kinds
    if score.kind not in kinds:
        text = f"{benchmark} has no kind {score.kind!r}" if score.kind else f"no kind of {benchmark} is named"
        raise wrong(score, f"{text}; it has {', '.join(kinds)}")
    kind = kinds[score.kind]
    metrics, shots = kind.metrics, kind.shots.count if kind.shots else 0
    if not any(paired_tests.alike(score.metric, one) for one in metrics):
        raise wrong(score, f"{benchmark} {score.kind} has no metric {score.metric!r}; it has {', '.join(metrics)}")
    if score.shots not in {None, shots}:
        raise wrong(score, f"{benchmark} was asked with {score.shots} examples, {score.kind} has {shots}")
    if not 1 <= score.n <= MOST_ROWS:
        raise wrong(score, f"n must be a number of rows, not {score.n:,}")
    if not math.isfinite(score.value) or score.value < 0:
        raise wrong(score, f"{score.metric} is {score.value:g}, which is no score")
    if metric_names.unit(score.metric) == "share" and score.value > 1:
        raise wrong(score, f"{score.metric} is {score.value:g}: shares lie between 0 and 1, 0.41 for 41 %")
    return benchmark, metrics


def wrong(score: GivenScore, what: str) -> RefusedError:
    """Return the refusal of all scores because of one."""
    where = f"{score.place}: " if score.place else ""
    return RefusedError("bad-score", f"{where}{what}.", "Nothing was stored.", Exit.USAGE)


async def add(change: Change, request: BaselineAdd, run: GivenRun, session: str, who: str) -> int:
    """Store one run as a job that is done, with its score; returns the job's number."""
    key = run.key(request.baseline, request.program)
    number = await add_job(change.db, session, new_job(request, run, key, f"given by {who} from {request.source}"))
    version, _ = await work_of(change.db, number)
    moment = now()
    await update_job(change.db, number, attempt=1, started=moment, finished=moment)
    metrics = {name: metric_view(name, value, run.n) for name, value in run.metrics.items()}
    view = ScoreView(
        job=f"j{number}", model=request.baseline, benchmark=run.benchmark, kind=run.kind, version=version,
        primary=next(iter(metrics)), metrics=metrics, n=run.n, rows=run.n, repeats=1, scored=0, finished=moment,
        session=session, warnings=(WARNING,), provenance=provenance(request, run, key),
    )  # fmt: skip
    await add_score(change.db, number, key, view.finished, msgspec.json.encode(view).decode())
    text = f"{view.model} {view.benchmark} {view.kind}: given by {request.program}"
    data = msgspec.to_builtins(view)
    await change.note("job.score", job=view.job, session=session, text=text, data=data)
    return number


def metric_view(name: str, value: float, n: int) -> MetricView:
    """Return a metric with the interval that its number of rows gives a share; no other has one."""
    unit = metric_names.unit(name)
    if unit != "share":
        return MetricView(value=value, unit=unit)
    low, high = wilson(value, n)
    return MetricView(value=value, stderr=math.sqrt(value * (1 - value) / n), ci_low=low, ci_high=high)


def new_job(request: BaselineAdd, run: GivenRun, key: str, detail: str) -> NewJob:
    """Return the job as if it had been queued here. It has no weights: which they were is not known."""
    return NewJob(
        model=request.baseline, weights_path="", weights_sha256="", benchmark=run.benchmark, kind=run.kind,
        state="done", reason="", detail=detail, priority=0, generation_key=key, grade_key=key, settings="{}",
        configuration=as_json(configuration(run)), grader=request.program, grader_version=GIVEN, grading="{}",
        benchmark_version=0, rows_sha256="", seed=0, row_limit=None, numerics=IMPORTED, repeats=1, stages=0, total=0,
        run_log_dir="",
    )  # fmt: skip


def configuration(run: GivenRun) -> dict[str, Any]:
    """Return what is known of how it was asked: that it is said to be of this kind."""
    return {"kind": run.kind, "stages": [], "repeats": 1}


def provenance(request: BaselineAdd, run: GivenRun, key: str) -> dict[str, Any]:
    """Return where the score came from, with the fields that comparisons ask for."""
    return {
        "imported": {"program": request.program, "source": request.source, "files": {request.source: request.sha256}},
        "given": True,
        "weights_name": request.baseline,
        "weights_sha256": "",
        "rows_sha256": "",
        "benchmark_version": 0,
        "grader": request.program,
        "grader_version": GIVEN,
        "grading": {},
        "rwkvctl_version": __version__,
        "configuration": configuration(run),
        "limit": None,
        "numerics": IMPORTED,
        "grade_key": key,
    }
