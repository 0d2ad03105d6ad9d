"""Jobs of outside harnesses: what their runner is told, whether an attempt has a result, and the score of it."""

import json
import math
from typing import Any, Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.harness import facts, manifest
from rwkv_daemon.harness.installation import Installation
from rwkv_daemon.harness.manifest import ManifestError
from rwkv_daemon.harness.outputs import result
from rwkv_daemon.harness.outputs.result import USABLE, HarnessMetric, HarnessResult, is_mean, is_share
from rwkv_daemon.jobs.score_writer import provenance
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.scheduling.running_jobs import RunnerHandle
from rwkv_daemon.store import JobRow
from rwkv_daemon.workers.run_directory import HarnessSpec
from rwkv_data.scoring import metric_names
from rwkv_data.scoring.statistics import wilson
from rwkvctl.protocol.views import MetricView, ScoreView
from rwkvctl.settings.config import Config
from rwkvctl.text.quantities import several

Z95: Final = 1.959964


class HarnessChangedError(Exception):
    """What a job was dispatched with is not there any more: it cannot be started until it is."""


def spec_of(config: Config, job: JobRow) -> HarnessSpec:
    """Return what the runner of a job is told of its harness. Raises HarnessChangedError if that is not what the job
    was dispatched with. Called in a thread: it reads files."""
    name, _, task = job.benchmark.partition(":")
    try:
        fact = facts.fact_of_job(config, job)
        harness = manifest.load(config, name)
    except (SelectionError, ManifestError) as error:
        raise HarnessChangedError(str(error)) from error
    if fact.rows_sha256 != job.rows_sha256:
        text = f"the manifest or the lock of {name} has changed since {job.name} was dispatched"
        raise HarnessChangedError(f"{text}: put it back, or dispatch again")
    at = Installation.of(config, harness)
    return HarnessSpec(
        name=name,
        manifest=harness.text,
        folder=str(at.folder),
        own=str(at.own),
        own_sha256=str(fact.configuration["own_tasks_sha256"]),
        weights_path=job.weights_path,
        weights_sha256=job.weights_sha256,
        task=task,
        settings={str(one): str(value) for one, value in json.loads(job.settings).items()},
        hidden=facts.hidden_paths(config),
    )


def result_of(records: Records, job: JobRow) -> HarnessResult | None:
    """Return the result of a job's last attempt; None if it has none, or its samples are not all stored."""
    found = result.read(records.folder(job.id).path, job.attempt)
    return found if found is not None and found.state in USABLE and job.done >= found.samples else None


def progress_of(records: Records, handle: RunnerHandle) -> str | None:
    """Return how far a running harness is, by what it was answered; None before it is at work."""
    try:
        text = records.folder(handle.job).alive(handle.attempt).read_text(encoding="ascii")
        requests, tokenized = map(int, text.split() or (0, 0))
    except (OSError, ValueError):
        return None
    if requests:
        return f"{several(requests, 'request')} answered"
    return f"prepares: {several(tokenized, 'text')} tokenized" if tokenized else ""


async def score_view(records: Records, job: JobRow, found: HarnessResult) -> ScoreView:
    """Return the score of a harness as it is stored and shown. Raises OtherWeightsError."""
    task, traffic = found.task, found.traffic
    assert task is not None, "a usable result has its task"
    of_rows = task.mean is not None and any(is_mean(metric, task.mean) for metric in task.metrics[:1])
    n = task.n if task.binary and of_rows else 0
    metrics = {metric.name: metric_view(metric, n) for metric in task.metrics}
    primary = next(iter(metrics), "none")
    missing = [metric for metric in task.metrics if metric.value is None]
    headline = metrics.setdefault(primary, MetricView(value=None))
    why = missing[0].reason if headline.value is None and missing else ""
    known = await provenance(records, job, {}, "", traffic.engines)
    harness: dict[str, Any] = {
        "version": task.version, "shots": task.shots, "requests": traffic.requests, "refused": traffic.refused,
        "parts": task.parts,
    }  # fmt: skip
    return ScoreView(
        job=job.name,
        model=job.model,
        benchmark=job.benchmark,
        kind=job.kind,
        version=job.version,
        primary=primary,
        metrics=metrics,
        n=task.n,
        rows=task.n,
        repeats=1,
        scored=task.n - task.n_error,
        truncated=traffic.truncated,
        errors=task.n_error,
        completion_tokens=traffic.generated_tokens / max(1, task.n),
        partial=job.row_limit is not None or found.state == "partial" or (task.whole or 0) > task.n,
        why_null=why or ("the harness gave no metric" if headline.value is None else ""),
        warnings=tuple(warnings_of(found)),
        session=job.session,
        provenance=known
        | {
            "rows_sha256": task.rows_sha256 or job.rows_sha256,
            "prompt_tokens": traffic.prompt_tokens,
            "generated_tokens": traffic.generated_tokens,
            "task": harness,
        },
    )


def metric_view(metric: HarnessMetric, n: int) -> MetricView:
    """Return a metric with an interval: of a share from the `n` rows that it is of (0: not known); of any other from
    the harness's own error."""
    value, error = metric.value, metric.stderr
    share = is_share(metric.name) and value is not None and 0 <= value <= 1
    unit = metric_names.unit(metric.name) if metric.name in metric_names.CORPUS else "share" if share else "points"
    if value is None:
        return MetricView(value=None)
    if share and n:
        low, high = wilson(value, n)
        error = math.sqrt(value * (1 - value) / n) if error is None else error
        return MetricView(value=value, stderr=error, ci_low=low, ci_high=high)
    if error:
        low, high = value - Z95 * error, value + Z95 * error
        return MetricView(value=value, stderr=error, ci_low=low, ci_high=high, unit=unit)
    return MetricView(value=value, unit=unit)


def warnings_of(found: HarnessResult) -> list[str]:
    """Return what a reader of the score must know."""
    said = [found.why] if found.why else []
    traffic = found.traffic
    if traffic.refused:
        said.append(f"the engine answered {several(traffic.refused, 'request')} of the harness with an error")
    if traffic.truncated:
        said.append(f"the token limit cut off {several(traffic.truncated, 'completion')}: raise max_tokens")
    return said
