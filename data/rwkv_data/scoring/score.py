"""The score of a kind over its graded samples. It is null, with a reason, unless all samples are graded."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.sampling_search import Search, summary
from rwkv_data.definition.stage import Row
from rwkv_data.scoring import metric_names
from rwkv_data.scoring.metric_names import Sample


def score(kind: Kind, samples: Iterable[Sequence[Any]], rows: Sequence[Row] | None = None) -> dict[str, Any]:
    """Return the score as plain JSON values.

    With `rows` (those that were asked) missing samples are noticed, and the chance level and the groups are computed.
    `metrics` holds, for each name, value, stderr, ci_low, ci_high and unit; all null if `reason` says why there is no
    score. `routes` counts how answers were found; `curves` has avg@k, pass@k, pass^k and maj@k of repeated kinds.
    """
    graded = sorted((Sample(*sample) for sample in samples), key=lambda sample: sample[:2])
    if kind.search:
        return _counts(kind, graded, rows) | _found(kind.search, graded, rows)
    by_row = {row: list(group) for row, group in groupby(graded, key=lambda sample: sample.row)}
    reason = _why_null(kind, graded, by_row, rows)
    scored = [] if reason else list(by_row.values())
    return {
        **_counts(kind, graded, rows),
        "primary": kind.metrics[0],
        "metrics": {name: _metric(name, scored) for name in kind.metrics},
        "reason": reason,
        **({"curves": metric_names.curves(scored, kind.repeats)} if scored and kind.repeats > 1 else {}),
        **_groups(kind, {} if reason else by_row, rows),
    }


def _counts(kind: Kind, graded: Sequence[Sample], rows: Sequence[Row] | None) -> dict[str, Any]:
    """Return the counts that qualify the score. Samples that a search dropped are not counted."""
    there = [sample for sample in graded if sample.reason != "dropped"]
    counts = Counter(sample.reason for sample in there)
    return {
        "n": len(there),
        "scored": sum(sample.value is not None for sample in there),
        "rows": len({sample.row for sample in there}),
        "repeats": kind.repeats,
        "truncated": sum(sample.stop == "length" for sample in there),
        "no_answer": counts["no_answer"],
        "timeouts": counts["timeout"],
        "unjudged": counts["unjudged"],
        "errors": sum(sample.value is None for sample in there) - counts["unjudged"],
        "chance": _chance(kind, rows),
        "routes": dict(Counter(sample.route for sample in there if sample.route)),
    }


def _found(search: Search, graded: Sequence[Sample], rows: Sequence[Row] | None) -> dict[str, Any]:
    """Return the result of a search: the value of its best point as the headline, and every point."""
    verdicts: dict[int, dict[int, float]] = {}
    there = [sample for sample in graded if sample.reason != "dropped"]
    for sample in there:
        if sample.value is not None:
            verdicts.setdefault(sample.repeat, {})[sample.row] = sample.value
    seen = Counter(sample.repeat for sample in there)
    count = len(rows) if rows is not None else max(seen.values(), default=0)
    found = summary(search, verdicts, count, seen)
    best = found["best"]
    metric = dict.fromkeys(("value", "stderr", "ci_low", "ci_high")) | {"unit": "share"}
    unjudged = sum(sample.reason == "unjudged" for sample in graded)
    if best is not None and not unjudged:
        metric |= {name: found["points"][best][name] for name in ("value", "stderr", "ci_low", "ci_high")}
    unjudged = sum(sample.reason == "unjudged" for sample in graded)
    reason = (
        f"{unjudged} samples wait for the judge" if unjudged else None if best is not None else "no point has all rows"
    )
    return {"primary": "best", "metrics": {"best": metric}, "reason": reason, "search": found}


def _metric(name: str, rows: metric_names.SamplesByRow) -> dict[str, Any]:
    if not rows:
        return {"value": None, "stderr": None, "ci_low": None, "ci_high": None, "unit": metric_names.unit(name)}
    return metric_names.measure(name, rows)._asdict() | {"unit": metric_names.unit(name)}


def _why_null(
    kind: Kind, graded: Sequence[Sample], by_row: Mapping[int, Sequence[Sample]], rows: Sequence[Row] | None
) -> str | None:
    """Return why there is no score, as a sentence; None if there is one."""
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
    """Return the chance level: the mean of 1 / (number of choices)."""
    levels = [level for row in rows or () if (level := kind.chance(row)) is not None]
    return fmean(levels) if levels else None


def _groups(kind: Kind, by_row: Mapping[int, Sequence[Sample]], rows: Sequence[Row] | None) -> dict[str, Any]:
    """Return the headline metric and the number of rows of each group (subject), and `macro`, the mean of the
    groups."""
    if not (kind.group_by and rows and by_row):
        return {}
    members: dict[str, list[Sequence[Sample]]] = {}
    for index, samples in by_row.items():
        members.setdefault(str(rows[index].get(kind.group_by, "")), []).append(samples)
    groups = {
        name: {"value": metric_names.measure(kind.metrics[0], own).value, "rows": len(own)}
        for name, own in sorted(members.items())
    }
    return {"groups": groups, "macro": fmean(group["value"] for group in groups.values())}
