"""The scores of the checkpoints of a watched folder in the order of their steps, a row for each benchmark and kind.
Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell
from rwkvctl.protocol.states import WatchedState
from rwkvctl.protocol.training.watches import WatchedView
from rwkvctl.scoreboard.book import Key, Score, Value
from rwkvctl.text.quantities import count, spark
from rwkvctl.tui.scores.columns import plus_minus, value
from rwkvctl.tui.scores.curves import Curve, curve, is_drawable
from rwkvctl.tui.watches.watch_rows import step_text
from rwkvctl.tui.widgets.table_columns import Column

SPARK_CELLS: Final = 16
DRAWN: Final = 2 * SPARK_CELLS
"""Checkpoints of a row, the last: as many as a spark has room for."""
LOWEST: Final = 0.25
"""Of the height of a spark, for a value at the lower end: one of four dots, since none says that there is no value."""
MEASURED: Final[frozenset[WatchedState]] = frozenset({"dispatched", "done", "parked"})
"""States in which a checkpoint may have scores, as the feedback has them."""
LOWER_IS_BETTER: Final = frozenset({"bits", "perplexity"})
"""Units."""


class CheckpointScore(NamedTuple):
    """The primary metric of a checkpoint, and a mark: `!` says that samples have no verdict or were cut off, `~` that
    the score is of some rows only."""

    step: int | None
    read: Value
    mark: str = ""


class ScoreRow(NamedTuple):
    """A benchmark and kind, with the scores of the last `DRAWN` checkpoints that have one. `metric`: what the last of
    them is measured by; `others` have scores by another one, or in another unit. `measured`: how many checkpoints have
    a score; `here`: that of the checkpoint under the cursor."""

    key: Key
    metric: str
    scores: tuple[CheckpointScore, ...]
    curve: Curve
    measured: int
    here: CheckpointScore | None = None

    @property
    def last(self) -> CheckpointScore:
        return self.scores[-1]


def measured_of(checkpoints: Sequence[WatchedView]) -> list[WatchedView]:
    """Return the checkpoints that may have scores in the order of their steps, one for each model. One without a step
    counts as earlier than those with one."""
    found = {
        one.model: one for one in sorted(checkpoints, key=lambda one: one.id) if one.state in MEASURED and one.jobs
    }
    return sorted(found.values(), key=lambda one: (-1 if one.step is None else one.step, one.id))


def rows_of(checkpoints: Sequence[WatchedView], scores: Mapping[str, Mapping[Key, Score]]) -> list[ScoreRow]:
    """Return the rows in the order of the benchmarks' names. `scores`: of each model those by benchmark and kind."""
    found: dict[Key, list[tuple[WatchedView, Score]]] = {}
    for one in measured_of(checkpoints):
        for key, score in scores.get(one.model, {}).items():
            found.setdefault(key, []).append((one, score))
    rows = (row_of(key, known) for key, known in sorted(found.items()))
    return [row for row in rows if row is not None]


def row_of(key: Key, known: Sequence[tuple[WatchedView, Score]]) -> ScoreRow | None:
    """Return the row of one benchmark and kind; None if no score of it has a value. A score that could not be computed
    has no place in it."""
    values = [(one, score) for one, score in known if value_of(score) is not None]
    if not values:
        return None
    metric, unit = values[-1][1].primary, values[-1][1].metrics[values[-1][1].primary].unit
    like = [(one, score) for one, score in values if score.primary == metric and score.metrics[metric].unit == unit]
    scores = tuple(CheckpointScore(one.step, score.metrics[metric], mark(score)) for one, score in like[-DRAWN:])
    return ScoreRow(key, metric, scores, curve_of(key, metric, scores, len(values) - len(like)), len(values))


def value_of(score: Score) -> float | None:
    read = score.read()
    return None if read is None else read.value


def mark(score: Score) -> str:
    """Return what must be known with a score, as the matrix marks it."""
    return "!" if score.missing or score.notes else "~" if score.partial else ""


def curve_of(key: Key, metric: str, scores: Sequence[CheckpointScore], others: int) -> Curve:
    """Return scores as a curve, on a scale of round numbers around all values and their intervals. The title says how
    many are of some rows only, how many are too large to be drawn, and how many `others` are left out."""
    some, doubtful = (sum(one.mark == sign for one in scores) for sign in "~!")
    large = sum(not is_drawable(one.read) for one in scores)
    notes = [f"{number:,} {what}" for number, what in (
        (some, "of some rows only"), (doubtful, "without some verdicts"), (large, "too large to draw"),
        (others, "by another metric left out"),
    ) if number]  # fmt: skip
    title = " ".join(filter(None, (*key, metric, "by checkpoint")))
    return curve(
        f"{title}: {', '.join(notes)}" if notes else title, [(one.read, step_text(one.step)) for one in scores]
    )


def with_checkpoint(rows: Sequence[ScoreRow], model: str, scores: Mapping[str, Mapping[Key, Score]]) -> list[ScoreRow]:
    """Return rows with the scores of one model, that of the checkpoint under the cursor, by the metric of their row."""
    known, found = scores.get(model, {}), list[ScoreRow]()
    for row in rows:
        score = known.get(row.key)
        read = score.read(row.metric) if score else None
        here = CheckpointScore(None, read, mark(score)) if score and read and read.value is not None else None
        found.append(row if here == row.here else row._replace(here=here))
    return found


def spark_cell(row: ScoreRow) -> Cell:
    """Return the shape of the curve, from the lower end of its scale to the upper one."""
    low, high = row.curve.scale
    levels = [LOWEST + (1 - LOWEST) * (point.value - low) / (high - low) for point in row.curve.points]
    return Cell(spark(levels, SPARK_CELLS) if len(levels) > 1 else "", "info")


def scale_text(row: ScoreRow) -> str:
    """Return the two ends of the scale; an arrow says that lower values are better: `0.8–1.2 ↓`."""
    low, high = row.curve.scale
    return f"{low:g}–{high:g}" + (" ↓" if row.last.read.unit in LOWER_IS_BETTER else "")


def score_cell(one: CheckpointScore | None, *, interval: bool = False) -> Cell:
    """Return a value, with its interval if that is wanted, and its mark."""
    if one is None:
        return Cell("–", "dim")
    half = plus_minus(one.read) if interval else ""
    text = value(one.read) + (f" ±{half}" if half else "")
    return Cell(f"{text}{one.mark or ' '}", "warn" if one.mark == "!" else "")


SCORES: Final[tuple[Column[ScoreRow], ...]] = (
    Column("BENCHMARK", lambda row: Cell(row.key[0], "bold"), 18, least=10, grow=1, cut="middle"),
    Column("KIND", lambda row: row.key[1], 18, least=6, grow=1, rank=3, cut="middle"),
    Column("METRIC", lambda row: row.metric, 12, least=8, rank=4),
    Column("BY CHECKPOINT", spark_cell, SPARK_CELLS, value=lambda row: row.last.read.value, live=True),
    Column("SCALE", scale_text, 11, least=8),
    Column("FIRST", lambda row: score_cell(row.scores[0]), 7, right=True, rank=1,
           value=lambda row: row.scores[0].read.value),
    Column("HERE", lambda row: score_cell(row.here), 7, right=True, live=True,
           value=lambda row: None if row.here is None else row.here.read.value),
    Column("LAST", lambda row: score_cell(row.last, interval=True), 12, right=True,
           value=lambda row: row.last.read.value),
    Column("AT STEP", lambda row: step_text(row.last.step), 9, right=True, rank=2,
           value=lambda row: -1 if row.last.step is None else row.last.step),
    Column("MEASURED", lambda row: count(row.measured), 8, right=True, rank=5, value=lambda row: row.measured),
)  # fmt: skip
