"""Samples of two jobs side by side: which rows both have, what each adds to the metric, and where they part."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rwkv_data import comparison, measures
from rwkv_data.measures import Sample
from rwkvctl.protocol.messages import ComparisonView, FlipView, MetricView, ScoreView

OTHER_ROWS = 0.01
"""Where rows are paired by force, the share of reference answers that may differ before they are other questions."""

LONGEST = 200
MOST_FLIPS = 1000


@dataclass(frozen=True, slots=True)
class Graded:
    """One row of one side: its samples, and what is shown of the first one that decides."""

    samples: list[Sample]
    numbers: list[int]
    expected: str

    @property
    def whole(self) -> bool:
        """Whether every sample has a verdict."""
        return all(sample.value is not None for sample in self.samples)


@dataclass(slots=True)
class Side:
    """A job's rows by their number."""

    view: ScoreView
    rows: dict[int, Graded] = field(default_factory=dict)

    @classmethod
    def of(cls, view: ScoreView, found: Iterable[Any]) -> "Side":
        """From rows of the store, in order of row and repeat."""
        side = cls(view)
        for one in found:
            own = side.rows.setdefault(one["row"], Graded([], [], one["expected"]))
            parts = json.loads(one["parts"])
            sample = Sample(one["row"], one["repeat"], one["value"], "", one["extracted"], one["reason"], "", parts)
            own.samples.append(sample)
            own.numbers.append(one["number"])
        return side


def pair_up(view: ComparisonView, a: Side, b: Side, *, force: bool, flips: int) -> ComparisonView:
    """The comparison of two sides that may be compared, or the reason why their rows cannot be paired."""
    shared = [row for row in a.rows if row in b.rows and a.rows[row].whole and b.rows[row].whole]
    left_out = len(a.rows.keys() | b.rows.keys()) - len(shared)
    if why := unpairable(a, b, shared, left_out, force=force):
        return msgspec.structs.replace(view, why=why, left_out=left_out)
    shared = [row for row in shared if same_question(a, b, row)]
    try:
        values_a = comparison.row_values(a.view.primary, [a.rows[row].samples for row in shared])
        values_b = comparison.row_values(b.view.primary, [b.rows[row].samples for row in shared])
    except (ValueError, KeyError, ArithmeticError) as error:
        return msgspec.structs.replace(view, why=f"the samples do not give {view.metric}: {error}")
    single = a.view.repeats == b.view.repeats == 1 and view.metric not in measures.CORPUS
    found = comparison.pair(values_a, values_b, verdicts=single)
    estimate = found.difference
    return msgspec.structs.replace(
        view,
        a=found.a,
        b=found.b,
        difference=MetricView(
            value=estimate.value, stderr=estimate.stderr, ci_low=estimate.ci_low, ci_high=estimate.ci_high
        ),
        rows=found.rows,
        left_out=len(a.rows.keys() | b.rows.keys()) - found.rows,
        only_a=found.only_a,
        only_b=found.only_b,
        test=found.test,
        p=found.p,
        lower_is_better=comparison.lower_is_better(view.metric),
        forced=bool(view.differs or left_out),
        flips=tuple(flipped(a, b, shared, values_a, values_b)[: max(0, min(flips, MOST_FLIPS))]),
    )


def unpairable(a: Side, b: Side, shared: Sequence[int], left_out: int, *, force: bool) -> str:
    """Why the rows cannot be paired; empty where they can."""
    if not a.rows or not b.rows:
        return f"{' and '.join(name for name, side in (('A', a), ('B', b)) if not side.rows)} came without samples"
    if not shared:
        return "no row is in both"
    if left_out and not force:
        return f"{left_out} rows are in one of them only, or have no verdict in both"
    strangers = sum(not same_question(a, b, row) for row in shared)
    if strangers > OTHER_ROWS * len(shared):
        return f"the row numbers mean other questions: {strangers} of {len(shared)} reference answers differ"
    return ""


def same_question(a: Side, b: Side, row: int) -> bool:
    """Whether both expected the same answer, where the rows are not known to be the same."""
    known = a.view.provenance.get("rows_sha256")
    if known and known == b.view.provenance.get("rows_sha256"):
        return True
    return " ".join(a.rows[row].expected.split()) == " ".join(b.rows[row].expected.split())


def flipped(
    a: Side, b: Side, shared: Sequence[int], values_a: Sequence[float], values_b: Sequence[float]
) -> list[FlipView]:
    """Rows on which one side did better, in the order of rows."""
    return [
        flip(row, a.rows[row], b.rows[row], (value_a, value_b))
        for row, value_a, value_b in zip(shared, values_a, values_b, strict=True)
        if value_a != value_b
    ]


def flip(row: int, a: Graded, b: Graded, values: tuple[float, float]) -> FlipView:
    """One such row, shown by the repeat in which the sides first part."""
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
    """A text that may be long, or none."""
    return None if text is None else text[:LONGEST]
