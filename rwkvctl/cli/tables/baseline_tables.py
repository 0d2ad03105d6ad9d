"""Baselines: pinned ones, models whose scores were given, and these scores."""

from collections.abc import Iterable

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table, joined
from rwkvctl.text.quantities import count

ROLES: dict[str, Role] = {"added": "ok", "would-add": "info", "there": "dim"}


def pins(items: Iterable[Record]) -> Table:
    """Return a table of the pinned baselines, the most particular patterns first."""
    columns = [Column("MODELS"), Column("COMPARED WITH", cut="model"), Column("WHO"), Column("SINCE")]
    rows: list[list[str | Cell]] = [
        [
            Cell(item["pattern"], "bold"),
            item["model"] if item.get("scored", True) else Cell(f"{item['model']} (no scores any more)", "warn"),
            item["who"],
            day(item["created"]),
        ]
        for item in items
    ]
    return Table(columns, rows, "no baseline is pinned: each model is compared with the one before it", "pin")


def day(at: str) -> Cell:
    """Return the day of a time."""
    return Cell(at[:10], plain=at)


def models(items: Iterable[Record]) -> Table:
    """Return a table of the models whose scores were given."""
    columns = [Column("MODEL", cut="model"), Column("SCORES", right=True), Column("FROM"), Column("ADDED")]
    rows: list[list[str | Cell]] = [
        [Cell(item["model"], "bold"), count(item["scores"]), " ".join(item["programs"]), day(item["added"])]
        for item in items
    ]
    return Table(columns, rows, "no scores were given: `rwkvctl baseline add` takes those of lm_eval or CSV", "model")


def given(items: Iterable[Record]) -> Table:
    """Return a table of what became of given scores."""
    columns = [
        Column("OUTCOME"), Column("JOB"), Column("BENCHMARK", cut="middle"), Column("KIND", cut="middle"),
        Column("N", right=True), Column("METRICS", cut="end"), Column("NOTE", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            Cell(item["outcome"], ROLES[item["outcome"]]),
            Cell(item.get("job", ""), "bold"),
            item["benchmark"],
            item["kind"],
            count(item.get("n", 0)),
            joined(f"{name} {value:.4g}" for name, value in item.get("metrics", {}).items()),
            Cell(item.get("note", ""), "warn"),
        ]
        for item in items
    ]
    return Table(columns, rows, "no scores", "score")
