"""Two sides compared, as the console shows them: the family of benchmarks, the facts of one, its flips. Tests and
estimates come from the daemon; only counts are compared here. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell, share, short_model
from rwkvctl.cli.tables.comparison_tables import WORDS, interval, mark, probability
from rwkvctl.cli.tables.comparison_tables import number as in_unit
from rwkvctl.protocol.views import ComparisonView, FlipView, ScoreView
from rwkvctl.scoreboard.book import value_of
from rwkvctl.scoreboard.matrix import gain
from rwkvctl.text.sanitize import cell_width, fit, safe_line
from rwkvctl.tui.scores.columns import difference, plus_minus, sign
from rwkvctl.tui.scores.runs import prompt, rate
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

TESTS: Final = {"mcnemar": "McNemar, exact", "bootstrap": "paired bootstrap", "fisher": "Fisher, exact, not paired",
                "": "no test"}  # fmt: skip
SHOWS: Final = ("all", "lost", "gained")
"""Which flips are shown: all, those that only A gets right, those that only B does."""

LABEL: Final = 13
WIDE: Final = 30
"""From this width on a column of the facts has room for more than the figures."""


def name_of(view: ComparisonView) -> str:
    """Return a benchmark with its kind, which identifies a row of the family."""
    return f"{view.benchmark} {view.kind}"


def verdict(view: ComparisonView) -> Cell:
    """Return the verdict with its mark."""
    glyph, role = sign(view)
    return Cell(f"{glyph} {WORDS.get(view.verdict, view.verdict)}", role, view.verdict)


def bounds(view: ComparisonView) -> str:
    """Return the 95 % interval of the difference."""
    found = view.difference
    return interval({"ci_low": found.ci_low, "ci_high": found.ci_high}, view.unit) if found else "–"


def flipped(view: ComparisonView) -> str:
    """Return how many rows only A gets right, and how many only B."""
    return f"{view.only_a:,}/{view.only_b:,}" if view.p is not None and not view.unpaired else "–"


def why(view: ComparisonView) -> str:
    """Return why there is no comparison, or the settings that differ."""
    return view.why or "; ".join((*view.differs, *view.noted))


FAMILY: Final[tuple[Column[ComparisonView], ...]] = (
    Column("BENCHMARK", lambda view: Cell(view.benchmark, "bold"), 18, least=12, cut="middle", grow=1),
    Column("KIND", lambda view: view.kind, 14, least=8, rank=5, cut="middle"),
    Column("VERDICT", verdict, 16, least=14),
    Column("A", lambda view: in_unit(view.a, view.unit), 6, right=True, value=lambda view: view.a, name="a"),
    Column("B", lambda view: in_unit(view.b, view.unit), 6, right=True, value=lambda view: view.b, name="b"),
    Column("B-A", difference, 7, right=True, name="difference",
           value=lambda view: gain(view) if view.difference else None),
    Column("95 % CI", bounds, 16, least=14, right=True, rank=3, name="ci"),
    Column("LOST/WON", flipped, 9, right=True, rank=4, value=lambda view: view.only_a - view.only_b, name="flips"),
    Column("P HOLM", lambda view: probability(view.p_holm), 7, right=True, value=lambda view: view.p_holm, name="p"),
    Column("WHY", why, 20, least=12, grow=2, rank=6),
)  # fmt: skip


class ComparedScores(NamedTuple):
    """The scores of both sides of one comparison, as far as they are known."""

    a: ScoreView | None = None
    b: ScoreView | None = None


def facts(view: ComparisonView, sides: ComparedScores, width: int, family: int) -> list[Pieces]:
    """Return the lines on one benchmark: both sides, the test's result, and the settings that differ."""
    column = (width - LABEL) // 3
    a, b = (of_run(view, name, score, column - 1) for name, score in zip("AB", sides, strict=True))
    lines = [
        side_by_side("", (a, b), "B - A", column, role="title"),
        estimate(view, sides, column),
        [(" test".ljust(LABEL), "dim"), (test(view, family), "")],
    ]  # fmt: skip
    if sides.a is not None and sides.b is not None and not view.unpaired:
        lines += [counted(name, sides.a, sides.b, column) for name in ("truncated", "no_answer")]
        lines.append(lengths(sides.a, sides.b, column))
    differs = [*view.differs, *view.noted]
    said = "; ".join(differs) if differs else "none: the settings are the same"
    lines.append([(" settings".ljust(LABEL), "dim"), (said, "warn" if view.differs else "")])
    return lines


def of_run(view: ComparisonView, side: str, score: ScoreView | None, room: int) -> str:
    """Return which run a side is, and its date if there is room."""
    shown = f"{side} {view.job_a if side == 'A' else view.job_b} "
    if score is None:
        return shown
    day = f" {score.finished[5:10]}" if room >= WIDE else ""
    return shown + short_model(safe_line(score.model), room - cell_width(shown + day)) + day


def side_by_side(label: str, texts: tuple[str, str], change: str, column: int, role: str = "") -> Pieces:
    """Return a line of the facts: A, B and the difference."""
    a, b = (padded(text, column) for text in texts)
    return [(f" {label}".ljust(LABEL), "dim"), (a, role), (b, role), (change, role or "bold")]


def padded(text: str, column: int) -> str:
    """Return a text in a column of `column` cells, cut in the middle if it is too long."""
    shown = fit(safe_line(text), column - 1, "middle")
    return shown + " " * (column - cell_width(shown))


def estimate(view: ComparisonView, sides: ComparedScores, column: int) -> Pieces:
    """Return the metric of both sides, and the difference with its interval."""
    texts = [
        in_unit(number, view.unit) + half(score)
        for number, score in ((view.a, sides.a), (view.b, sides.b))
    ]  # fmt: skip
    glyph, role = sign(view)
    shown = (
        f"{glyph} {difference(view)}  {bounds(view)}"
        if view.difference
        else f"{glyph} {WORDS.get(view.verdict, view.verdict)}"
    )
    marked = ", not paired" * view.unpaired + ", forced" * view.forced
    rest = f"  {view.rows:,} rows{marked}" if view.difference and column >= WIDE else ""
    label = f" {view.metric or 'score'}"
    return [
        (fit(label, LABEL - 1, "middle").ljust(LABEL), "dim"), (padded(texts[0], column), "bold"),
        (padded(texts[1], column), "bold"), (shown, role), (rest, "dim"),
    ]  # fmt: skip


def half(score: ScoreView | None) -> str:
    """Return the half-width of a score's own interval."""
    metric = score.metrics.get(score.primary) if score else None
    found = plus_minus(value_of(metric)) if metric else ""
    return f" ±{found}" if found else ""


def test(view: ComparisonView, family: int) -> str:
    """Return which test was used and its result, or why none was."""
    if view.p is None:
        return f"none: {view.why}"
    rows = "" if view.unpaired else f"A✓B✗ {view.only_a:,}  A✗B✓ {view.only_b:,}  "
    return f"{TESTS[view.test]}  {rows}p {probability(view.p)}  Holm over {family}: p {probability(view.p_holm)}"


def counted(name: str, a: ScoreView, b: ScoreView, column: int) -> Pieces:
    """Return how many samples of each side were cut off, or gave no answer."""
    label = {"truncated": "cut off", "no_answer": "no answer"}[name]
    number_a, number_b = (getattr(score, name) for score in (a, b))
    share_a, share_b = (100 * share(number, score.n) for number, score in ((number_a, a), (number_b, b)))
    texts = f"{number_a:,} ({share_a:.1f} %)", f"{number_b:,} ({share_b:.1f} %)"
    return side_by_side(label, texts, f"{share_b - share_a:+.1f}", column)


def lengths(a: ScoreView, b: ScoreView, column: int) -> Pieces:
    """Return mean length, speed and prompts of both sides."""
    change = f"{b.completion_tokens - a.completion_tokens:+,.0f} tok"
    return side_by_side("mean length", (length(a, column), length(b, column)), change, column)


def length(score: ScoreView, column: int) -> str:
    """`311 tok  546 tok/s  demo-v1/1`, the last where there is room."""
    speed = rate(score)
    asked = prompt(score) if column >= WIDE else ""
    said = [f"{score.completion_tokens:,.0f} tok", f"{speed:,.0f} tok/s" if speed else "", asked]
    return "  ".join(filter(None, said))


class Flip(NamedTuple):
    """A row on which one side did better; `lost` means that A did."""

    view: FlipView
    lost: bool

    @property
    def reason(self) -> str:
        """Return the reason of the side that did worse."""
        cut, reason = (self.view.cut_b, self.view.reason_b) if self.lost else (self.view.cut_a, self.view.reason_a)
        return "cut off" if cut else reason.replace("_", " ") or "–"


def flips_of(view: ComparisonView, shows: str = "all", *, grouped: bool = False) -> list[Flip]:
    """Return the shown flips in the order of rows, or of the reasons for losses."""
    found = [Flip(flip, (flip.value_a > flip.value_b) != view.lower_is_better) for flip in view.flips]
    kept = [flip for flip in found if shows == "all" or flip.lost == (shows == "lost")]
    return sorted(kept, key=lambda flip: (not flip.lost, flip.reason)) if grouped else kept


def reasons(flips: Iterable[Flip], *, lost: bool) -> str:
    """Return reasons with their counts: `cut off at the limit 36, wrong 31`."""
    found = Counter(flip.reason for flip in flips if flip.lost == lost)
    return ", ".join(f"{reason} {number}" for reason, number in found.most_common())


def flips_title(view: ComparisonView, every: Sequence[Flip], shows: str) -> Pieces:
    """Return how many flips there are, and the reasons of the lost ones."""
    lost = sum(flip.lost for flip in every)
    why_lost = reasons(every, lost=True)
    more = " (the first ones)" if len(every) < view.only_a + view.only_b else ""
    return [
        (f"Flips {view.only_a + view.only_b:,} of {view.rows:,}{more}", "title"),
        (f" · showing {shows}", "accent" if shows != "all" else "dim"),
        (f" · lost {lost:,}" + (f": {why_lost}" if why_lost else "") + f" · gained {len(every) - lost:,}", "dim"),
    ]


def side(flip: Flip, which: str) -> Cell:
    """Return the mark of side `a` or `b` of a flip, by its value and whether it did better."""
    better = flip.lost if which == "a" else not flip.lost
    return mark(flip.view.value_a if which == "a" else flip.view.value_b, better)


def says(text: str | None) -> Cell:
    """Return an answer as a cell; `–` for None."""
    return Cell("–", "dim") if text is None else Cell(text)


FLIPS: Final[tuple[Column[Flip], ...]] = (
    Column("ROW", lambda flip: str(flip.view.row), 6, right=True, value=lambda flip: flip.view.row),
    Column("A", lambda flip: side(flip, "a"), 5, least=2, value=lambda flip: flip.view.value_a),
    Column("B", lambda flip: side(flip, "b"), 5, least=2, value=lambda flip: flip.view.value_b),
    Column("EXPECTED", lambda flip: flip.view.expected, 18, least=10, grow=1),
    Column("A SAYS", lambda flip: says(flip.view.answer_a), 18, least=12, grow=1),
    Column("B SAYS", lambda flip: says(flip.view.answer_b), 18, least=12, grow=1),
    Column("WHY LOST", lambda flip: Cell(flip.reason, "" if flip.lost else "dim"), 22, least=14, grow=1, name="why"),
)  # fmt: skip
