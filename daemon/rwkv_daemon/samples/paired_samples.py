"""Samples of two jobs side by side: which rows both have, what each adds to the metric, and where they differ."""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from rwkv_daemon.rules.comparability import PICK_ROWS, row_numbering
from rwkv_data.scoring import metric_names, paired_tests
from rwkv_data.scoring.metric_names import Sample
from rwkv_data.scoring.paired_tests import RowValues
from rwkvctl.protocol.views import ComparisonView, FlipView, MetricView, ScoreView

OTHER_ROWS = 0.01
"""If rows are paired by force, the share of reference answers that may differ before they count as other questions."""

LONGEST = 200
MOST_FLIPS = 1000


@dataclass(frozen=True, slots=True)
class GradedRow:
    """One row of one side: its samples with their numbers, and the expected answer."""

    samples: list[Sample]
    numbers: list[int]
    expected: str

    @property
    def whole(self) -> bool:
        """Whether every sample has a verdict."""
        return all(sample.value is not None for sample in self.samples)


def graded_rows(found: Iterable[Any]) -> dict[int, GradedRow]:
    """Return rows by number, from samples of the store in order of row and repeat."""
    rows: dict[int, GradedRow] = {}
    for one in found:
        own = rows.setdefault(one["row"], GradedRow([], [], one["expected"]))
        parts = json.loads(one["parts"]) if one["parts"] != "{}" else {}
        sample = Sample(one["row"], one["repeat"], one["value"], "", one["extracted"], one["reason"], "", parts)
        own.samples.append(sample)
        own.numbers.append(one["number"])
    return rows


class Common(NamedTuple):
    """How many rows each side has, how many at least one has, how many have all verdicts in both, and how many of these
    were other questions."""

    rows_a: int
    rows_b: int
    either: int
    whole: int
    strangers: int = 0


class KeptRows(NamedTuple):
    """The rows of two sides that are compared, where not all are."""

    a: frozenset[int]
    b: frozenset[int]


class Parted(NamedTuple):
    """A row on which one side was better."""

    row: int
    a: float
    b: float


class PairTally:
    """Two sides row by row. They are added in pieces, in order of rows, and little is kept of each row. `kept`: the
    rows of each side that count; all, if there is none."""

    def __init__(self, a: ScoreView, b: ScoreView, kept: KeptRows | None = None) -> None:
        self.a, self.b, self.kept = a, b, kept
        self.alike = same_rows(a, b)
        self.rows_a = self.rows_b = self.either = self.whole = self.strangers = 0
        self.shared = array("q")
        self.values = RowValues(a.primary), RowValues(b.primary)
        self.problems: list[Exception | None] = [None, None]

    def take(self, a: Mapping[int, GradedRow], b: Mapping[int, GradedRow]) -> None:
        """Add the next rows: all of both sides between two rows."""
        if self.kept is not None:
            a = {row: graded for row, graded in a.items() if row in self.kept.a}
            b = {row: graded for row, graded in b.items() if row in self.kept.b}
        self.rows_a += len(a)
        self.rows_b += len(b)
        self.either += len(a.keys() | b.keys())
        for row, ours in a.items():
            theirs = b.get(row)
            if theirs is None or not ours.whole or not theirs.whole:
                continue
            self.whole += 1
            if not self.alike and not same_answer(ours, theirs):
                self.strangers += 1
                continue
            self.shared.append(row)
            self._add(0, ours)
            self._add(1, theirs)

    def _add(self, side: int, row: GradedRow) -> None:
        if self.problems[side] is None:
            try:
                self.values[side].add(row.samples)
            except BAD_SAMPLES as error:
                self.problems[side] = error

    @property
    def common(self) -> Common:
        return Common(self.rows_a, self.rows_b, self.either, self.whole, self.strangers)

    def all(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return what each shared row adds to the metric, on both sides. Raises one of BAD_SAMPLES."""
        for problem in self.problems:
            if problem is not None:
                raise problem
        return self.values[0].all(), self.values[1].all()

    def parted(self, values: tuple[Sequence[float], Sequence[float]], most: int) -> list[Parted]:
        """Return the first rows on which one side was better."""
        found = (Parted(*each) for each in zip(self.shared, *values, strict=True) if each[1] != each[2])
        return list(islice(found, most))


BAD_SAMPLES: Final = (ValueError, KeyError, ArithmeticError)
"""Errors of samples that do not give a metric."""


def pair_up(view: ComparisonView, tally: PairTally, *, force: bool, flips: int) -> tuple[ComparisonView, list[Parted]]:
    """Return the comparison of two sides, or the reason why their rows cannot be paired; and the first rows on which
    they differ."""
    if why := other_numbering(tally.a, tally.b) or unpairable(tally.common, force=force):
        return msgspec.structs.replace(view, why=why, left_out=tally.either - tally.whole), []
    try:
        values = tally.all()
    except BAD_SAMPLES as error:
        return msgspec.structs.replace(view, why=f"the samples do not give {view.metric}: {error}"), []
    single = tally.a.repeats == tally.b.repeats == 1 and view.metric not in metric_names.CORPUS
    found = paired_tests.pair(*values, verdicts=single)
    return compared(view, tally.common, found), tally.parted(values, flips)


def compared(view: ComparisonView, common: Common, found: paired_tests.PairedComparison) -> ComparisonView:
    """Return the comparison with the result of the pairing."""
    estimate = found.difference
    return msgspec.structs.replace(
        view,
        a=found.a,
        b=found.b,
        difference=MetricView(
            value=estimate.value, stderr=estimate.stderr, ci_low=estimate.ci_low, ci_high=estimate.ci_high
        ),
        rows=found.rows,
        left_out=common.either - found.rows,
        only_a=found.only_a,
        only_b=found.only_b,
        test=found.test,
        p=found.p,
        lower_is_better=paired_tests.lower_is_better(view.metric),
        forced=bool(view.differs or common.either - common.whole),
    )


def unpairable(common: Common, *, force: bool) -> str:
    """Return why the rows cannot be paired; empty if they can."""
    if not common.rows_a or not common.rows_b:
        empty = [name for name, rows in (("A", common.rows_a), ("B", common.rows_b)) if not rows]
        return f"{' and '.join(empty)} came without samples"
    if not common.whole:
        return "no row is in both"
    if (left_out := common.either - common.whole) and not force:
        return f"{left_out} rows are in one of them only, or have no verdict in both"
    if common.strangers > OTHER_ROWS * common.whole:
        return f"the row numbers mean other questions: {common.strangers} of {common.whole} reference answers differ"
    return ""


def same_set(a: ScoreView, b: ScoreView) -> bool:
    """Whether both are known to be of the same prepared set."""
    known = a.provenance.get("rows_sha256")
    return bool(known) and known == b.provenance.get("rows_sha256")


def same_rows(a: ScoreView, b: ScoreView) -> bool:
    """Whether the same row numbers are known to mean the same rows."""
    one, other = (row_numbering(configuration_of(view)) for view in (a, b))
    return same_set(a, b) and one == other


def other_numbering(a: ScoreView, b: ScoreView) -> str:
    """Return why the row numbers of two jobs over one set are not known to mean the same rows; empty if they do, or of
    different sets: then the reference answers are compared."""
    if not same_set(a, b) or same_rows(a, b):
        return ""
    one, other = configuration_of(a), configuration_of(b)
    differ = " and ".join(name for name in PICK_ROWS if one.get(name) != other.get(name))
    return (
        f"their row numbers may mean other rows, as {differ} differ: only runs of the same rows in one order are paired"
    )


def configuration_of(view: ScoreView) -> Mapping[str, Any]:
    """Return what a score's samples were generated with; empty if that is not known."""
    found = view.provenance.get("configuration")
    return found if isinstance(found, Mapping) else {}


def same_answer(ours: GradedRow, theirs: GradedRow) -> bool:
    """Whether both expected the same answer, blanks aside."""
    return ours.expected.split() == theirs.expected.split()


def flip(row: int, a: GradedRow, b: GradedRow, values: tuple[float, float]) -> FlipView:
    """Return such a row, shown by the repeat in which the sides differ first."""
    several = zip(a.samples, b.samples, strict=False)
    place = next((number for number, (one, other) in enumerate(several) if one.value != other.value), 0)
    return FlipView(
        row=row,
        value_a=values[0],
        value_b=values[1],
        sample_a=a.numbers[place],
        sample_b=b.numbers[place],
        after=row * 1048576 + place - 1,
        expected=a.expected[:LONGEST],
        answer_a=shortened(a.samples[place].extracted),
        answer_b=shortened(b.samples[place].extracted),
        reason_a=a.samples[place].reason,
        reason_b=b.samples[place].reason,
    )


def shortened(text: str | None) -> str | None:
    """Cut a text that is too long; None stays None."""
    return None if text is None else text[:LONGEST]
