"""Comparing a score with one that was given without samples: by their values and numbers of rows alone."""

from typing import Final

from msgspec import structs

from rwkv_daemon.rules.comparability import flat, spelled
from rwkv_data.scoring import metric_names, paired_tests
from rwkv_data.scoring.unpaired_tests import compare_shares
from rwkvctl.protocol.views import ComparisonView, MetricView, ScoreView

PICKS: Final = {"rows": "", "where": "", "order": "", "window": "", "part": "all", "share": 1.0}
"""Settings that leave rows out, with the values that leave none out."""
CHANGE_NOTHING: Final = frozenset({*PICKS, "seed", "k", "workers", "max_runtime_s", "attempts"})
"""Settings that change which samples are drawn, and how many, but not what a score is of; rows are counted anyway."""


def is_given(view: ScoreView) -> bool:
    """Whether a score was given as numbers alone."""
    return bool(view.provenance.get("given"))


def is_unpaired(a: ScoreView, b: ScoreView) -> bool:
    """Whether two scores can be compared by their values alone, as one of them has no samples."""
    return is_given(a) or is_given(b)


def comparison(a: ScoreView, b: ScoreView, *, force: bool) -> ComparisonView:
    """Return the comparison of two scores by a metric that both have, without a verdict, or why there is none."""
    given = " and ".join(side for side, view in (("A", a), ("B", b)) if is_given(view))
    metric, other = shared_metric(a, b)
    view = ComparisonView(
        benchmark=b.benchmark,
        kind=b.kind,
        verdict="not comparable",
        job_a=a.job,
        job_b=b.job,
        repeats_a=a.repeats,
        repeats_b=b.repeats,
        differs=tuple(differences(a, b)),
        noted=(f"not paired: the scores of {given} came without samples; how it was asked is what its file says",),
        metric=metric,
        unit=metric_names.unit(metric),
        a=value_of(a, metric),
        b=value_of(b, other),
        unpaired=True,
    )
    if why := refusal(view, a, b, other, force=force):
        return structs.replace(view, why=why)
    assert view.a is not None
    assert view.b is not None
    found = compare_shares(view.a, a.rows, view.b, b.rows)
    estimate = found.difference
    difference = MetricView(
        value=estimate.value, stderr=estimate.stderr, ci_low=estimate.ci_low, ci_high=estimate.ci_high
    )
    return structs.replace(
        view, rows=min(a.rows, b.rows), test="fisher", p=found.p, difference=difference, forced=bool(view.differs)
    )


def shared_metric(a: ScoreView, b: ScoreView) -> tuple[str, str]:
    """Return A's and B's name of the metric to compare: the headline of both, else the first that both have, else both
    headlines, which then cannot be compared."""
    if paired_tests.alike(a.primary, b.primary):
        return a.primary, b.primary
    both = next((name for name in a.metrics if name in b.metrics), "")
    return (both, both) if both else (a.primary, b.primary)


def value_of(view: ScoreView, metric: str) -> float | None:
    """Return the value of a metric; None if the score has none."""
    return view.metrics[metric].value if metric in view.metrics else None


def refusal(view: ComparisonView, a: ScoreView, b: ScoreView, other: str, *, force: bool) -> str:
    """Return why two scores are not compared; empty if they are."""
    for side, score, value in (("A", a, view.a), ("B", b, view.b)):
        if value is None:
            return f"{side} has no value: {score.why_null or 'no reason is stored'}"
    if not paired_tests.alike(view.metric, other):
        return f"A's headline is {view.metric} and B's is {other}: these metrics cannot be compared"
    if view.unit != "share":
        return f"{view.metric} is no share of right answers, so the number of rows gives it no interval"
    if view.differs and not force:
        return f"not the same in both: {'; '.join(view.differs)}"
    return ""


def differences(a: ScoreView, b: ScoreView) -> list[str]:
    """Return what forbids the comparison. Of a given score only its kind, its metrics and its number of rows are known,
    so the other side must be of all rows, and asked as its kind is without changed settings."""
    found = [f"kind: {a.kind} in A, {b.kind} in B"] if a.kind != b.kind else []
    if a.rows != b.rows:
        found.append(f"rows: {a.rows:,} in A, {b.rows:,} in B")
    for side, view in (("A", a), ("B", b)):
        known = flat(view.provenance.get("configuration"))
        picked = [f"{name}={spelled(known[name])}" for name, usual in PICKS.items() if known.get(name, usual) != usual]
        settings = flat(view.provenance.get("settings"))
        changed = [f"{name}={spelled(value)}" for name, value in settings.items() if name not in CHANGE_NOTHING]
        if changed:
            found.append(f"{side} was asked with other settings than its kind has ({', '.join(changed)})")
        if view.n != view.rows * view.repeats:
            found.append(f"{side} has {view.n:,} samples of {view.rows:,} rows")
        if view.partial or picked:
            some = ", ".join(picked) or f"limit={view.provenance.get('limit')}"
            found.append(f"{side} is of some rows only ({some})")
    return found
