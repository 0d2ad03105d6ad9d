"""The statistics of imported samples, and how they differ from the numbers that came with them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rwkv_daemon.import_rwkv_skills.imported_score import ImportedScore, ImportedVerdict, Place
from rwkv_data.scoring import metric_names
from rwkv_data.scoring.metric_names import Sample
from rwkvctl.protocol.views import MetricView

TOLERANCE: Final = 5e-4
"""Numbers that agree to three digits count as equal: some tools of rwkv-skills round."""

PREFERRED: Final = ("accuracy", "judge_accuracy", "exact_accuracy", "prompt_accuracy")
SAME: Final = {*PREFERRED}
"""Names of rwkv-skills for the share of samples that passed."""


@dataclass(frozen=True, slots=True)
class Recount:
    """The metrics of the samples. Without samples they are the source's own, without intervals."""

    primary: str
    metrics: dict[str, MetricView]
    rows: int
    repeats: int
    why_null: str = ""
    disagreements: tuple[str, ...] = ()


def recount(imported: ImportedScore) -> Recount:
    """Compute a score's metrics from its samples, and compare them with the numbers that came with it."""
    if not imported.verdicts and not imported.places:
        return unchecked(imported)
    rows = rows_of(imported.verdicts, imported.places)
    repeats = max(len(row) for row in rows)
    primary = "accuracy" if repeats == 1 else f"avg@{repeats}"
    if why := why_null(rows, repeats):
        return Recount(primary, {primary: MetricView(value=None)}, len(rows), repeats, why)
    names = [primary, *(name for name in imported.metrics if of_repeats(name, repeats) and name != primary)]
    found = {name: measured(name, rows) for name in names}
    return Recount(primary, found, len(rows), repeats, "", tuple(disagreements(imported, found, rows)))


def rows_of(verdicts: Mapping[Place, ImportedVerdict], places: set[Place]) -> list[list[Sample]]:
    """Return the samples by row, in order. A sample without a verdict has no value."""
    samples = [sample_of(place, verdicts.get(place)) for place in sorted({*verdicts, *places})]
    return [list(group) for _, group in groupby(samples, key=lambda sample: sample.row)]


def sample_of(place: Place, verdict: ImportedVerdict | None) -> Sample:
    """Return an imported sample in the form that statistics take; without a verdict its value is None."""
    value = float(verdict.passed) if verdict else None
    return Sample(*place, value, "", verdict.answer if verdict else None, reason_of(verdict))


def reason_of(verdict: ImportedVerdict | None) -> str:
    """Return `right` or `wrong`, or `error` for a sample that was never graded."""
    return "error" if verdict is None else "right" if verdict.passed else "wrong"


def why_null(rows: Sequence[Sequence[Sample]], repeats: int) -> str:
    """Return why the samples give no score; empty if they give one."""
    total = sum(len(row) for row in rows)
    if ungraded := sum(sample.value is None for row in rows for sample in row):
        return f"{ungraded} of {total} samples came without a verdict"
    if total != repeats * len(rows):
        return f"{total} of {repeats * len(rows)} samples came: not every row has {repeats}"
    return ""


def of_repeats(name: str, repeats: int) -> bool:
    """Whether a metric is one over repeats, which so many samples a row can give."""
    what, _, number = name.partition("@")
    return what in {"pass", "avg"} and number.isascii() and number.isdecimal() and 1 <= int(number) <= repeats


def measured(name: str, rows: Sequence[Sequence[Sample]]) -> MetricView:
    """Compute one metric of the samples, with its standard error and confidence interval."""
    found = metric_names.measure(name, rows)
    return MetricView(value=found.value, stderr=found.stderr, ci_low=found.ci_low, ci_high=found.ci_high)


def disagreements(
    imported: ImportedScore, found: Mapping[str, MetricView], rows: Sequence[Sequence[Sample]]
) -> list[str]:
    """Return which of the source's numbers differ from those of the samples, in words. If a judge's accuracy came with
    it, the exact one is about verdicts that were not kept, and is not compared."""
    share = metric_names.measure("accuracy", rows).value
    ours = {name: view.value for name, view in found.items()} | {
        name: share for name in SAME if name != "exact_accuracy" or "judge_accuracy" not in imported.metrics
    }
    words = [
        f"{name} is {value:.4g} there, its samples give {ours[name]:.4g}"
        for name, value in imported.metrics.items()
        if ours.get(name) is not None and abs(ours[name] - value) > TOLERANCE  # type: ignore[operator]
    ]
    counted = sum(len(row) for row in rows)
    if imported.samples and imported.samples != counted:
        words.append(f"samples is {imported.samples} there, {counted} came")
    return words


def unchecked(imported: ImportedScore) -> Recount:
    """Return the numbers of a score without samples, as they came."""
    found = {name: as_came(value) for name, value in imported.metrics.items()}
    named = [name for name in PREFERRED if name in found]
    repeated = sorted(name for name in found if name.startswith(("avg@", "pass@1")))
    primary = next(iter([*repeated, *named, *found]), "accuracy")
    rows = imported.problems or imported.samples
    repeats = max(1, imported.samples // rows) if rows else 1
    why = "" if found else "it came without a number and without samples"
    return Recount(primary, found or {primary: MetricView(value=None)}, rows, repeats, why)


def as_came(value: float) -> MetricView:
    """Return a number without an interval; one above 1 is taken for percent."""
    return MetricView(value=value, unit="points" if value > 1 else "share")


def rows_identity(verdicts: Mapping[Place, ImportedVerdict]) -> str:
    """Return what identifies the rows of an imported score: a hash of the reference answers by row number. Two imports
    with equal ones asked the same questions; none of our own scores has such an identity."""
    expected = {place[0]: verdict.expected for place, verdict in sorted(verdicts.items(), reverse=True)}
    if not any(expected.values()):
        return ""
    digest = hashlib.sha256()
    for row, answer in sorted(expected.items()):
        digest.update(f"{row}\0{answer}\0".encode())
    return f"references:{digest.hexdigest()}"
