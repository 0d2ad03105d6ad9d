"""The score of a finished job: statistics over its graded samples, and the provenance that makes it mean something."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from rwkv_daemon.catalogue import benchmarks
from rwkv_daemon.clock import now
from rwkv_daemon.faults import crash_point
from rwkv_daemon.node import Change, Node
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.engines import get_engine
from rwkv_daemon.store.samples import GradedSample, add_score, graded, totals
from rwkv_data import metrics, sets
from rwkv_data.benchmark import Answer, Benchmark, Kind
from rwkv_data.errors import DataError
from rwkv_data.stage import Row
from rwkvctl import __version__
from rwkvctl.protocol.messages import MetricView, ScoreView


class OtherWeightsError(Exception):
    """An engine of other weights than the job's answered: its score would be another model's."""


async def store_score(node: Node, job: JobRow, end: Callable[[Change], Awaitable[None]]) -> None:
    """Compute and store the score, and finish the job, in one transaction. Raises OtherWeightsError."""
    view = await score_view(node, job)
    crash_point("before-score-commit")
    async with node.change() as change:
        await end(change)
        finished = await change.move(job, "finish", engine=None)
        view = msgspec.structs.replace(view, finished=finished.finished)
        await add_score(change.db, job.id, job.grade_key, finished.finished, msgspec.json.encode(view).decode())
        text = f"{job.model} {job.benchmark} {job.kind}: {headline(view)}"
        data = json.loads(msgspec.json.encode(view))
        await change.note("job.score", job=job.name, session=job.session, text=text, data=data)
    crash_point("after-score-commit")


async def score_view(node: Node, job: JobRow) -> ScoreView:
    """The score as it is stored and shown."""
    benchmark = benchmarks()[job.benchmark]
    kind = effective_kind(benchmark, job)
    samples = [
        (s.row, s.repeat, s.value, whole_stop(kind, s), s.extracted, s.reason)
        for s in await graded(node.store, job.id, job.grade_key)
    ]
    rows, problem = asked_rows(benchmark, node.config.data_dir, job)
    result = metrics.score(kind, samples, rows=rows)
    return ScoreView(
        job=job.name,
        model=job.model,
        benchmark=job.benchmark,
        kind=job.kind,
        version=job.version,
        primary=result["primary"],
        metrics={name: MetricView(**values) for name, values in result["metrics"].items()},
        n=result["n"],
        rows=result["rows"],
        repeats=result["repeats"],
        truncated=result["truncated"],
        no_answer=result["no_answer"],
        errors=result["errors"],
        chance=result["chance"],
        partial=job.row_limit is not None and job.total < benchmark.rows * job.repeats,
        why_null=result["reason"] or "",
        session=job.session,
        provenance=await provenance(node, job, result, problem),
    )


def whole_stop(kind: Kind, sample: GradedSample) -> str:
    """How a sample ended as the kind sees it; one without any stage is an error."""
    if not sample.stops:
        return "error"
    return kind.stop(Answer(text=sample.text, stops=tuple(filter(None, sample.stops))))  # type: ignore[arg-type]  # stored stop kinds


def effective_kind(benchmark: Benchmark, job: JobRow) -> Kind:
    """The kind with the job's settings."""
    kind = benchmark.kinds[job.kind]
    return kind.with_settings(json.loads(job.settings)) if kind.settings() else kind


def asked_rows(benchmark: Benchmark, data_dir: Path, job: JobRow) -> tuple[list[Row] | None, str]:
    """The rows the job asked, for chance level and groups; or why they cannot be had any more."""
    try:
        rows = sets.load_rows(data_dir, benchmark)[: job.row_limit]
    except DataError as error:
        return None, str(error)
    return (rows, "") if len(rows) * job.repeats == job.total else (None, "the rows have changed since")


async def provenance(node: Node, job: JobRow, result: dict[str, Any], problem: str) -> dict[str, object]:
    """Everything needed to say whether two scores may be compared."""
    found = await totals(node.store, job.id)
    session = await node.store.one("SELECT * FROM session WHERE id = ?", (job.session,))
    names = [name for name in (found["engines"] or "").split(",") if name]
    engines = [await get_engine(node.store, int(name[1:])) for name in names]
    others = [engine.name for engine in engines if engine and engine.weights_sha256 != job.weights_sha256]
    if others or not job.generation_key:
        raise OtherWeightsError(f"{', '.join(others) or 'the job'} was not of the weights that were dispatched")
    extra: dict[str, object] = {name: result[name] for name in ("groups", "macro") if name in result}
    return {
        "weights_name": Path(job.weights_path).name,
        "weights_sha256": job.weights_sha256,
        "rows_sha256": job.rows_sha256,
        "benchmark_version": job.benchmark_version,
        "grader": job.grader,
        "grader_version": job.grader_version,
        "rwkvctl_version": __version__,
        "git_commit": session["git_commit"] if session else "",
        "configuration": json.loads(job.configuration),
        "settings": json.loads(job.settings),
        "seed": job.seed,
        "limit": job.row_limit,
        "numerics": job.numerics,
        "engines": [json.loads(engine.health) | {"lease": engine.lease} for engine in engines if engine],
        "attempts": job.attempt,
        "generation_key": job.generation_key,
        "grade_key": job.grade_key,
        "prompt_tokens": found["prompt_tokens"],
        "cached_tokens": found["cached_tokens"],
        "generated_tokens": found["generated_tokens"],
        "host": node.hostname,
        "queued": job.queued,
        "started": job.started,
        "scored": now(),
        **extra,
        **({"rows_problem": problem} if problem else {}),
    }


def headline(view: ScoreView) -> str:
    """`accuracy 91.3 % [87.6, 94.0]`, or why there is none."""
    metric = view.metrics[view.primary]
    if metric.value is None or metric.ci_low is None or metric.ci_high is None:
        return f"no score: {view.why_null}"
    low, high = 100 * metric.ci_low, 100 * metric.ci_high
    return f"{view.primary} {100 * metric.value:.1f} % [{low:.1f}, {high:.1f}]"
