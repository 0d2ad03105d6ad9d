"""Write scores as CSV, a line per metric, and as a Markdown table, a row per score."""

from collections.abc import Iterable, Iterator
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.scoreboard import score_notes
from rwkvctl.text.table_cells import csv_line, markdown_line, markdown_rule

OF_SCORE: Final = (
    "model", "benchmark", "kind", "version", "job", "session", "finished",
)  # fmt: skip
OF_METRIC: Final = ("value", "stderr", "ci_low", "ci_high")
COUNTS: Final = (
    "n", "scored", "rows", "repeats", "truncated", "no_answer", "timeouts", "unjudged", "errors", "completion_tokens",
    "chance", "partial", "why_null", "warnings", "measured_as",
)  # fmt: skip
PROVENANCE: Final = (
    "weights_name", "weights_sha256", "rows_sha256", "benchmark_version", "grader", "grader_version", "numerics",
    "seed", "limit", "generation_key", "grade_key", "rwkvctl_version", "git_commit", "host",
)  # fmt: skip
SHOWN: Final = ("truncated", "no_answer", "errors")
ZERO: Final = frozenset({"scored", "truncated", "no_answer", "timeouts", "unjudged", "errors"})
"""Counts that a reply leaves out where they are 0."""


def csv_lines(scores: Iterable[Record]) -> Iterator[str]:
    """One line a metric of each score, with everything that qualifies it."""
    titles = [*OF_SCORE, "metric", "primary", "unit", *OF_METRIC, *COUNTS, "profile", "profile_version", "imported"]
    yield csv_line([*titles, *PROVENANCE])
    for score in scores:
        yield from (csv_line(cells) for cells in rows_of(score))


def rows_of(score: Record) -> Iterator[list[object]]:
    """The cells of a score, a row a metric; the headline first."""
    primary, metrics, known = score["primary"], score.get("metrics", {}), score.get("provenance", {})
    configuration = known.get("configuration") or {}
    tail = [counted(score, name) for name in COUNTS]
    tail += [configuration.get("profile"), configuration.get("profile_version"), "imported" in known]
    tail += [known.get(name) for name in PROVENANCE]
    for name in dict.fromkeys([primary, *metrics]):
        metric = metrics.get(name) or {}
        head = [*(score.get(field) for field in OF_SCORE), name, name == primary, metric.get("unit", "share")]
        yield [*head, *(metric.get(field) for field in OF_METRIC), *tail]


def counted(score: Record, name: str) -> object:
    """A field of a score, with the default that a reply leaves out."""
    if name == "partial":
        return bool(score.get(name))
    if name == "warnings":
        return "; ".join(score.get(name, ()))
    return score_notes.counted(score, name) if name in ZERO else score.get(name)


def markdown_lines(scores: Iterable[Record]) -> Iterator[str]:
    """Yield the lines of a Markdown table with one row per score: its headline metric and what qualifies it."""
    titles = [
        "model", "benchmark", "kind", "metric", "value", "95 % CI", "n", "truncated", "no answer", "errors", "chance",
        "note", "job", "numerics", "weights", "rows", "grader", "key",
    ]  # fmt: skip
    yield markdown_line(titles)
    yield markdown_rule(len(titles))
    for score in scores:
        yield markdown_line(headline_of(score))


def headline_of(score: Record) -> list[str]:
    """Return the cells of one row of the Markdown table."""
    known, metric = score.get("provenance", {}), score.get("metrics", {}).get(score["primary"]) or {}
    share = metric.get("unit", "share") == "share"
    low, high = metric.get("ci_low"), metric.get("ci_high")
    value = metric.get("value")
    notes = [score.get("why_null") or "no value"] if value is None else []
    notes += score_notes.notes(score)
    return [
        score["model"],
        score["benchmark"],
        score["kind"],
        score["primary"],
        number(value, share=share),
        "–" if low is None or high is None else f"{number(low, share=share)} to {number(high, share=share)}",
        str(score.get("n", 0)),
        *("–" if (found := score_notes.counted(score, name)) is None else str(found) for name in SHOWN),
        number(score.get("chance"), share=True),
        "; ".join(notes),
        score["job"],
        *(str(known.get(name) or "")[:12] for name in ("numerics", "weights_sha256", "rows_sha256")),
        f"{known.get('grader', '')} {known.get('grader_version', '')}".strip(),
        str(known.get("generation_key") or "")[:12],
    ]


def number(value: float | None, *, share: bool) -> str:
    """Return a share in percent, any other value with four digits; `null` if it is missing."""
    if value is None:
        return "null"
    return f"{100 * value:.1f} %" if share else f"{value:.4g}"
