"""How the matrix is drawn: the model, its mean, what it lost most, then a column for each kind of a benchmark. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rwkvctl.cli.render import Cell, Role, short_model
from rwkvctl.cli.tables.comparison_tables import SIGNS, probability
from rwkvctl.cli.tables.comparison_tables import number as in_points
from rwkvctl.protocol.views import ComparisonView
from rwkvctl.scoreboard.book import Key, Score, Value
from rwkvctl.scoreboard.matrix import Choice, MatrixRow, gain, mean, titles_of, verdict_of, worst
from rwkvctl.text.sanitize import cell_width, fit, safe_line
from rwkvctl.tui.screen import NARROW
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import GAP, Column
from rwkvctl.tui.widgets.table_paint import GUTTER

WIDEST: Final = 24
LEAST: Final = (18, 5, 14)
USUAL: Final = (30, 5, 20)
LONGEST: Final = (34, 5, 28)
"""Widths of model, mean and worst: on a small terminal, on others, and where there is more room than columns."""

FIXED: Final = 3
"""Model, mean and worst stay where they are; the others move past them."""

EVERYTHING: Final = Choice()
NEVER: Final = Cell("· ", "dim", "")


@dataclass
class MatrixView:
    """What the columns are made for. `common` are those that every row shown has: the mean is over these."""

    keys: Sequence[Key] = ()
    choice: Choice = EVERYTHING
    common: Sequence[Key] = ()
    room: int = 80
    titles: dict[Key, str] = field(default_factory=dict)
    widths: dict[Key, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.titles = titles_of(self.keys)
        self.widths = widths_of(self)

    @property
    def dense(self) -> bool:
        """Return whether the table is narrower than NARROW cells."""
        return self.room < NARROW

    @property
    def fixed(self) -> tuple[int, int, int]:
        """Return the widths of model, mean and largest loss, which share the room that the columns leave."""
        name, mean, lost = LEAST if self.dense else USUAL
        left = max(0, self.room - GUTTER - needed(self.widths, WIDEST) - name - mean - lost - 3 * GAP)
        more = min(left, LONGEST[2] - lost)
        return min(name + left - more, LONGEST[0]), mean, lost + more

    def title(self, key: Key) -> str:
        """Return the title of a column; the benchmark's name if the column is not shown."""
        return self.titles.get(key, key[0])


def columns(shown: MatrixView) -> list[Column[MatrixRow]]:
    """Return all columns. Score columns are not searched by plain words, since a filter means models."""
    wide, narrow, lost = shown.fixed
    return [
        Column("MODEL", partial(name_cell, wide), wide, value=lambda row: row.name, cut="middle"),
        Column("MEAN", partial(mean_cell, shown), narrow, value=partial(mean_of, shown), right=True, live=True),
        Column("WORST Δ", partial(worst_cell, shown), lost, value=partial(worst_of, shown), live=True, name="worst"),
        *(column(shown, key) for key in shown.keys),
    ]  # fmt: skip


def widths_of(shown: MatrixView) -> dict[Key, int]:
    """Return the widths of columns: their names' if all fit so, else reduced as far as needed, at least to the width of
    a value and a little of the name."""
    least = 11 if shown.choice.intervals else 7
    wanted = {key: max(cell_width(safe_line(title)) + 1, least) for key, title in shown.titles.items()}
    room = shown.room - GUTTER - sum(LEAST if shown.dense else USUAL) - 3 * GAP
    narrow = least + (1 if shown.dense else 2)
    most = next((most for most in range(WIDEST, narrow, -1) if needed(wanted, most) <= room), narrow)
    return {key: min(width, most) for key, width in wanted.items()}


def needed(wanted: Mapping[Key, int], most: int) -> int:
    """Return the cells that columns need if none is wider than this."""
    return sum(min(width, most) + GAP for width in wanted.values())


def column(shown: MatrixView, key: Key) -> Column[MatrixRow]:
    """Return the column of scores of one benchmark and kind; it is sorted by the chosen metric."""
    title, width, choice = safe_line(shown.title(key)), shown.widths[key], shown.choice
    return Column(
        fit(title, width - 1, "middle") + " ", partial(score_cell, key, choice), width, right=True, live=True,
        value=partial(score_of, key, choice.metric), name=title,
    )  # fmt: skip


def name_cell(width: int, row: MatrixRow) -> Cell:
    """Return a model's name, shortened to the room there is."""
    return Cell(short_model(safe_line(row.name), width), "bold", row.name)


def mean_of(shown: MatrixView, row: MatrixRow) -> float | None:
    """Return the mean over the common columns in percent; None if it is unknown."""
    value = mean(row, shown.common, shown.choice.metric)
    return None if value is None else 100 * value


def mean_cell(shown: MatrixView, row: MatrixRow) -> str:
    value = mean_of(shown, row)
    return "–" if value is None else f"{value:.1f}"


def worst_of(shown: MatrixView, row: MatrixRow) -> float | None:
    """Return the change of the worst column in points; None if nothing was compared."""
    found = worst(row, shown.keys)
    return None if found is None else 100 * gain(found)


def worst_cell(shown: MatrixView, row: MatrixRow) -> Cell:
    """Return the largest loss against the base: `gsm8k ▼-3.2`."""
    if not row.base or shown.choice.metric:
        return Cell("–", "dim")
    if row.verdicts is None:
        return Cell("…", "dim")
    found = worst(row, shown.keys)
    if found is None:
        shown_ones = (verdict_of(row, key) for key in shown.keys)
        compared = any(view is not None and view.difference is not None for view in shown_ones)
        return Cell("nothing worse" if compared else "~ not comparable", "dim")
    width = shown.fixed[2]
    change = sign(found)[0] + difference(found)
    name = fit(safe_line(shown.title((found.benchmark, found.kind))), width - len(change) - 1, "middle")
    return Cell(f"{name} {change}", sign(found)[1])


def sign(view: ComparisonView) -> tuple[str, Role]:
    """Return the mark and role of a comparison's verdict."""
    return SIGNS[view.verdict]


def difference(view: ComparisonView) -> str:
    """Return the difference B - A in the unit's points, with its sign."""
    return in_points(view.difference.value if view.difference else None, view.unit, signed=True)


def score_of(key: Key, metric: str, row: MatrixRow) -> float | None:
    """Return a score to sort and filter by: a share as a percentage."""
    score = row.cells.get(key)
    read = score.read(metric) if score else None
    if read is None or read.value is None:
        return None
    return 100 * read.value if read.unit == "share" else read.value


def score_cell(key: Key, choice: Choice, row: MatrixRow) -> Cell:
    """`74.9±2.3▼`: the value, its interval if it is wanted, and one mark."""
    score, running = row.cells.get(key), row.running.get(key)
    if score is None:
        return NEVER if running is None else Cell(f"▸{100 * running:3.0f}% ", "info")
    mark, role = mark_of(row, key, score, choice)
    read = score.read(choice.metric)
    if read is None or read.value is None:
        return Cell(f"–{mark}", role if mark.strip() else "dim", "")
    said = value(read)
    half = plus_minus(read)
    text = f"{said}±{half:<4}" if choice.intervals and half else f"{said}     " if choice.intervals else said
    return Cell(text + mark, role, f"{said} ±{half}" if choice.intervals and half else said)


def value(read: Value) -> str:
    """Return a share in percent, any other value with four digits."""
    if read.value is None:
        return "–"
    return f"{100 * read.value:.1f}" if read.unit == "share" else f"{read.value:.4g}"


def plus_minus(read: Value) -> str:
    """Return the longer side of the 95 % interval; empty if there is none."""
    if read.value is None or read.low is None or read.high is None:
        return ""
    half = max(read.value - read.low, read.high - read.value)
    return f"{100 * half:.1f}" if read.unit == "share" else f"{half:.2g}"


def mark_of(row: MatrixRow, key: Key, score: Score, choice: Choice) -> tuple[str, Role]:
    """Return the most important mark beside a score."""
    if key in row.running:
        return "▸", "info"
    if score.missing:
        return "!", "warn"
    found = None if choice.metric else verdict_of(row, key)
    if found is not None and found.verdict in {"better", "worse"}:
        return sign(found)
    if score.notes:
        return "!", "warn"
    other = found is None and not choice.metric and key in (row.verdicts or {})
    if other or (found is not None and found.verdict == "not comparable") or (found is None and score.partial):
        return "~", ""
    return " ", ""


def in_words(row: MatrixRow, key: Key, shown: MatrixView) -> Pieces:
    """Return the cell under the cursor as a sentence: its score, its verdict, and what qualifies it."""
    score = row.cells.get(key)
    if score is None:
        return [(" never run; R runs it" if key not in row.running else " running for the first time", "dim")]
    read = score.read(shown.choice.metric)
    half = plus_minus(read) if read else ""
    said = (value(read) if read else "–") + (f" ±{half}" if half else "")
    pieces = [(f" {said}", "bold"), (f"  {score.job}, {score.n:,} samples{', partial' * score.partial}", "")]
    pieces += verdict_in_words(row, key)
    if score.missing:
        pieces.append((f"  ! {score.missing:,} without a verdict", "warn"))
    return [*pieces, *((f"  ! {note}", "warn") for note in score.notes)]


def verdict_in_words(row: MatrixRow, key: Key) -> list[tuple[str, str]]:
    """Return the verdict of a comparison as `▼ -3.2 [-4.6, -1.7] p .0002 against NAME`."""
    found = (row.verdicts or {}).get(key)
    if found is None:
        return []
    mark, role = sign(found)
    if found.difference is None:
        return [(f"  {mark} not comparable with {row.base}: {found.why}", "dim")]
    other = "" if verdict_of(row, key) else f" ({found.job_b})"
    said = f"  {mark} {difference(found)} p {probability(found.p_holm)}{other} against {row.base} {found.job_a}"
    said += ", not paired" * found.unpaired
    return [(said, role)]
