"""Tables of `rwkvctl scores show`: one score in full."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table
from rwkvctl.cli.tables.core_tables import INTERVAL, NULL, in_unit, interval_cells
from rwkvctl.scoreboard.score_notes import counted, measured_as
from rwkvctl.text.quantities import Amount, count, percent, spark

COUNTS: Final = ("n", "scored", "truncated", "no_answer", "timeouts", "unjudged", "errors", "rows", "repeats")
KNOWN: Final = frozenset({"n", "rows", "repeats"})
"""Counts that are known of a score without samples, too."""
ELSEWHERE: Final = frozenset({"groups", "macro", "curves", "routes", "search", "engines", "configuration"})
"""Parts of the provenance that have a table of their own, or are too long for one line."""


def whole(score: Record) -> list[Table]:
    """Metrics, counts, groups, curves, routes and provenance."""
    known = score.get("provenance", {})
    tables = [metrics(score), counts(score), groups(known), curves(known.get("curves", {})), routes(known)]
    return [*tables, provenance(known)]


def trend(scores: Iterable[Record], shown: Record) -> str:
    """The headline over the runs of one kind (given newest first) as a small picture with its scale; empty where there
    are not two of them, or they are no shares."""
    runs = [(score["job"], score["metrics"].get(score["primary"]) or {}) for score in scores
            if score["kind"] == shown["kind"] and score["primary"] == shown["primary"]]  # fmt: skip
    known = [(job, float(metric["value"])) for job, metric in reversed(runs)
             if metric.get("value") is not None and metric.get("unit", "share") == "share"]  # fmt: skip
    if len(known) < 2:
        return ""
    low, high = min(value for _, value in known), max(value for _, value in known)
    low, high = math.floor(10 * low) / 10, max(math.ceil(10 * high) / 10, math.floor(10 * low) / 10 + 0.1)
    drawn = spark([(value - low) / (high - low) for _, value in known], (len(known) + 1) // 2)
    (first, begun), (last, now) = known[0], known[-1]
    ends = f"{percent(begun)} ({first}) to {percent(now)} ({last})"
    return f"over {len(known)} runs {drawn} {ends}, drawn from {percent(low, 0)} to {percent(high, 0)}"


def metrics(score: Record) -> Table:
    """Every metric with its interval; the headline first."""
    columns = [Column("METRIC"), Column("VALUE", right=True), Column("SE", right=True), *INTERVAL]
    names = sorted(score["metrics"], key=lambda name: name != score["primary"])
    rows: list[list[str | Cell]] = []
    for name in names:
        metric = score["metrics"][name]
        value, stderr = metric.get("value"), metric.get("stderr")
        shown = Cell(NULL, "warn") if value is None else Cell(in_unit(value, metric), "bold")
        rows.append([name, shown, "–" if stderr is None else in_unit(stderr, metric), *interval_cells(metric)])
    return Table(columns, rows, "", "metric")


def counts(score: Record) -> Table:
    """Return a table of the counts of a score, and its notes."""
    rows: list[list[str | Cell]] = [
        [name, count(score.get(name, 0) if name in KNOWN else counted(score, name))] for name in COUNTS
    ]
    if counted(score, "n") is not None:
        tokens = score.get("completion_tokens", 0)
        rows.append(["completion tokens", Amount(f"{tokens:.1f} a sample", tokens)])
    if score.get("chance") is not None:
        rows.append(["chance", percent(score["chance"])])
    if score.get("why_null"):
        rows.append(["no score", Cell(score["why_null"], "warn")])
    rows += [["note", text] for text in measured_as(score)]
    rows += [["note", Cell(text, "warn")] for text in score.get("warnings", ())]
    return Table([Column("COUNT"), Column("", cut="end", name="value")], rows, "", "count")


def groups(known: Record) -> Table:
    """The headline of each subject, and their plain mean."""
    columns = [Column("GROUP", cut="middle"), Column("%", right=True, name="value"), Column("ROWS", right=True)]
    found = known.get("groups", {})
    rows: list[list[str | Cell]] = [
        [name, percent(one["value"]), count(one["rows"]) if one["rows"] else "–"] for name, one in found.items()
    ]
    if found:
        rows.append(["mean of the groups", percent(known.get("macro")), ""])
    return Table(columns, rows, "", "group")


def curves(found: Mapping[str, Mapping[str, float]]) -> Table:
    """Return a table of metrics such as pass@k in percent, one column per k."""
    ks = sorted({int(k) for values in found.values() for k in values})
    columns = [Column("K"), *(Column(str(k), right=True, name=f"at {k}") for k in ks)]
    rows: list[list[str | Cell]] = [
        [f"{name}{'' if name.endswith('^') else '@'}k", *(percent(values.get(str(k))) for k in ks)]
        for name, values in found.items()
    ]
    return Table(columns, rows, "", "curve")


def routes(known: Record) -> Table:
    """Return a table of the routes by which answers were extracted, the most frequent first."""
    found = sorted(known.get("routes", {}).items(), key=lambda pair: -pair[1])
    columns = [Column("FOUND BY"), Column("SAMPLES", right=True)]
    return Table(columns, [[name, count(n)] for name, n in found], "", "route")


def provenance(known: Record) -> Table:
    """Return a table of the rest of the provenance."""
    columns = [Column("PROVENANCE"), Column("", cut="end", name="value")]
    return Table(columns, [[*pair] for pair in flat(known)], "", "provenance")


def flat(known: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested values as (dotted name, text), without empty values and top-level names in
    ELSEWHERE."""
    for name, value in known.items():
        if prefix or name not in ELSEWHERE:
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{name}.")
            elif value not in ("", None, []):
                yield prefix + name, str(value)
