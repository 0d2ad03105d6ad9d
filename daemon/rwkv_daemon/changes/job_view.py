"""A job as clients see it, in replies and in events."""

import json

import msgspec

from rwkv_daemon.rules.forecast import ExpectedRun
from rwkv_daemon.store import JobRow
from rwkv_data.definition.kind import PICKS
from rwkv_data.scoring import statistics
from rwkvctl.protocol.states import TERMINAL
from rwkvctl.protocol.views import JobView, MetricView, ScoreView

NO_SHARE = ("perplexity", "param_search")
"""Kinds whose mean so far is no share of right answers: bits per byte, and the many points of a search."""


def job_view(
    job: JobRow, *, rate: float | None = None, score: ScoreView | None = None, detail: str = "",
    expected: ExpectedRun | None = None, idle_s: float | None = None,
) -> JobView:  # fmt: skip
    """Return a job with its ETA, from `rate` samples a second or from `expected`, and its running score. A job without
    progress for `idle_s` has no ETA."""
    eta_s = (job.total - job.done) / rate if rate else expected.ends_s if expected else None
    return JobView(
        id=job.name,
        model=job.model,
        benchmark=job.benchmark,
        kind=job.kind,
        state=job.state,
        session=job.session,
        reason=job.reason,  # type: ignore[arg-type]  # the store holds what the planner's closed list gave it
        detail=detail or job.detail,
        version=job.version,
        priority=job.priority,
        group=job.group_name,
        done=job.done,
        total=job.total,
        stages_done=job.stages_done,
        stages_total=job.stages_total,
        numerics=job.numerics,
        engine=f"e{job.engine}" if job.engine else "",
        attempt=job.attempt,
        failure=job.failure,
        limit=job.row_limit,
        picks=picks(job.settings),
        weights=job.weights_path,
        generation_key=job.generation_key,
        source_job=f"j{job.source_job}" if job.source_job is not None else "",
        labels=f"{job.grader}/{job.grader_version}" if job.labels_rows else "",
        queued=job.queued,
        started=job.started,
        finished=job.finished,
        samples_per_s=rate,
        eta_s=eta_s if idle_s is None else None,
        idle_s=idle_s,
        starts_s=expected.starts_s if expected and job.state == "queued" else None,
        expected_on=expected.lease if expected and job.state == "queued" else "",
        running_score=running_score(job),
        score=score,
    )


def picks(settings: str) -> str:
    """Return the settings of a job that pick rows, as words; empty if it asks all."""
    if not any(f'"{name}"' in settings for name in PICKS):
        return ""
    known = json.loads(settings)
    return " ".join(f"{name}={known[name]}" for name in PICKS if known.get(name))


def as_data(job: JobRow, *, rate: float | None = None) -> dict[str, object]:
    """Return the view as plain JSON values, for an event."""
    return dict(json.loads(msgspec.json.encode(job_view(job, rate=rate))))


def running_score(job: JobRow) -> MetricView | None:
    """Return the share of right samples so far, of those with a verdict; None for a job that is over, and for a
    job of the writer. The interval counts questions: repeats of a question are no more evidence about the others."""
    if not job.judged or job.state in TERMINAL or job.kind.startswith(NO_SHARE) or not job.measures:
        return None
    share = min(1.0, job.right_sum / job.judged)
    low, high = statistics.wilson(share, max(1.0, job.judged / job.repeats))
    return MetricView(value=share, ci_low=low, ci_high=high)
