"""Benchmarks of the catalogue as rows, and everything that is known of one. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell
from rwkvctl.cli.tables.core_tables import kinds
from rwkvctl.protocol.views import BenchmarkView, ScoreView
from rwkvctl.text.quantities import count
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.scores import summary
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

SCORES: Final = 8


class BenchmarkRow(NamedTuple):
    """A benchmark and its newest scores, one for each model and kind."""

    item: BenchmarkView
    scores: tuple[ScoreView, ...] = ()


def name(row: BenchmarkRow) -> str:
    return row.item.name


def sets_of(items: Iterable[BenchmarkView], scores: Iterable[ScoreView]) -> list[BenchmarkRow]:
    """Return benchmarks with their scores: those that need attention first, then the runnable ones, then the rest."""
    found: dict[str, list[ScoreView]] = {}
    for score in scores:
        found.setdefault(score.benchmark, []).append(score)
    ordered = sorted(items, key=lambda item: (not item.damaged, not item.ready, item.name))
    return [BenchmarkRow(item, tuple(found.get(item.name, ()))) for item in ordered]


def rows_cell(row: BenchmarkRow) -> Cell:
    """Return the number of rows that are ready; if none are, the expected number in grey."""
    item = row.item
    if item.rows is not None:
        return Cell(count(item.rows))
    return Cell(count(item.rows_complete) if item.rows_complete else "–", "dim")


def state_cell(row: BenchmarkRow) -> Cell:
    """Return whether the benchmark's rows are ready, damaged or missing."""
    item = row.item
    if item.ready:
        return Cell("✓ built in" if item.builtin else "✓ ready", "ok", "ready")
    return Cell("! damaged", "warn", "damaged") if item.damaged else Cell("– missing", "dim", "missing")


def schema_cell(row: BenchmarkRow) -> Cell:
    """Return a warning if the benchmark's schema was written without a real row to check it."""
    return Cell("") if row.item.schema_verified else Cell("! untried", "warn", "unseen")


def last_score(row: BenchmarkRow) -> str:
    """Return the newest score and its model."""
    return f"{summary.text(row.scores[0])} {row.scores[0].model}" if row.scores else "–"


BENCHMARKS: Final[tuple[Column[BenchmarkRow], ...]] = (
    Column("BENCHMARK", lambda row: Cell(row.item.name, "bold"), 22, least=16, cut="middle"),
    Column("STATE", state_cell, 10),
    Column("ROWS", rows_cell, 7, value=lambda row: row.item.rows or row.item.rows_complete, right=True),
    Column("USE", lambda row: Cell("training" if row.item.training else "", "dim"), 8, rank=7),
    Column("DOMAIN", lambda row: row.item.domain, 21, least=13, rank=3),
    Column("KINDS", lambda row: kinds(row.item.usual, row.item.kinds), 18, least=12, rank=4, grow=1),
    Column("V", lambda row: str(row.item.version), 2, value=lambda row: row.item.version, right=True, rank=6),
    Column("LICENCE", lambda row: row.item.licence or "–", 14, least=11, rank=5),
    Column("SCHEMA", schema_cell, 9, rank=2),
    Column("LAST SCORE", last_score, 26, least=15, grow=1, rank=1, name="last",
           value=lambda row: row.scores[0].finished if row.scores else ""),
    Column("TITLE", lambda row: row.item.title, 30, rank=8, grow=1),
    Column("SOURCE", lambda row: row.item.source, 34, rank=9, grow=1),
)  # fmt: skip


def tally(items: Sequence[BenchmarkView]) -> str:
    """Return how many benchmarks are known, ready, and not."""
    damaged = sum(item.damaged for item in items)
    ready = sum(item.ready for item in items)
    said = f"{len(items)} known · {ready} ready · {len(items) - ready - damaged} missing"
    return said + (f" · {damaged} damaged" if damaged else "")


def about(row: BenchmarkRow) -> list[Pieces]:
    """Return the detail lines of a benchmark."""
    item = row.item
    lines: list[Pieces] = []
    if item.problem:
        lines.append([(f" {item.problem}", "warn" if item.damaged else ""), ("  (f prepares it)", "dim")])
    if not item.schema_verified:
        lines.append([(" this benchmark was written without seeing its rows: check its prompts first (p)", "warn")])
    facts = {
        "rows": f"{count(item.rows or item.rows_complete)} of {item.split}, from {item.source}"
        + (f", prepared {item.prepared[:10]}" if item.prepared else ""),
        "use": "training: it runs only when it is named, and is in no matrix and no report" if item.training else "",
        "kinds": ", ".join(item.usual) or "none by default: name one",
        "if named": ", ".join(kind for kind in item.kinds if kind not in item.usual),
        "prompts": f"{item.profile}   benchmark version {item.version}   licence {item.licence or '–'}",
        "sha256": item.rows_sha256[:16],
    }
    lines += [[(f" {title:<9}", "dim"), (text, "")] for title, text in facts.items() if text]
    return [*lines, *summary.lines(row.scores, SCORES, of_model=False)]


def question(items: Sequence[BenchmarkView]) -> list[Pieces]:
    """Return the lines of the question before benchmarks are prepared: sources, effect and the equal command."""
    title = f"Prepare {items[0].name}?" if len(items) == 1 else f"Prepare {len(items)} benchmarks?"
    sources: list[Pieces] = [
        [(f"{item.name} ", "bold"), (f"{count(item.rows_complete or None)} rows from {item.upstream}", "")]
        for item in items[:6]
    ]
    return [
        [(title, "title")],
        *sources,
        *([[(f"and {len(items) - 6} more", "dim")]] if len(items) > 6 else []),
        [("", "")],
        [("will     ", "dim"), ("download what is not on this node yet, and write the rows to the data folder", "")],
        [("loses    ", "dim"), ("nothing: jobs keep the rows that they have used", "")],
        [("same as  ", "dim"), (prepare(items), "info")],
    ]


def prepare(items: Iterable[BenchmarkView]) -> str:
    """Return the `rwkvctl data prepare` command for these benchmarks."""
    return as_typed(["rwkvctl", "data", "prepare", *(item.name for item in items)])
