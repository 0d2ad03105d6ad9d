"""Whether a checkpoint has collapsed on a benchmark: every row has the same answer or none, or it fell to chance.
Pure."""

from dataclasses import dataclass, field
from typing import Final

from rwkvctl.protocol.training.feedback import ALPHA
from rwkvctl.protocol.views import ComparisonView, ScoreView

FEWEST_ROWS: Final = 20
"""Of fewer rows neither says anything."""


@dataclass(slots=True)
class AnswersGiven:
    """What the answers to the rows of a run have in common, added one by one in the order of the rows."""

    rows: int = 0
    last_row: int = -1
    answers: set[str] = field(default_factory=set)
    expected: set[str] = field(default_factory=set)
    has_answer: bool = False

    def add(self, row: int, reason: str, extracted: str | None, expected: str) -> None:
        self.rows += row != self.last_row
        self.last_row = row
        self.has_answer |= reason != "no_answer"
        if len(self.expected) < 2:
            self.expected.add(expected)
        if extracted and len(self.answers) < 2:
            self.answers.add(extracted)

    @property
    def problem(self) -> str:
        """Return how they are all the same, where different ones are expected; empty if they are not."""
        if self.rows < FEWEST_ROWS:
            return ""
        if not self.has_answer:
            return "no row has an answer"
        if len(self.answers) == 1 < len(self.expected):
            return f"every row has the same answer or none: {next(iter(self.answers))}"
        return ""


def is_at_chance(view: ScoreView) -> bool:
    """Whether a score cannot be told from random choice."""
    metric = view.metrics.get(view.primary)
    if view.chance is None or metric is None or metric.ci_low is None or view.rows < FEWEST_ROWS:
        return False
    return metric.ci_low <= view.chance


def is_above_chance(view: ScoreView) -> bool:
    """Whether a score is better than random choice."""
    metric = view.metrics.get(view.primary)
    return metric is not None and metric.ci_low is not None and view.chance is not None and metric.ci_low > view.chance


def fell_to_chance(before: ScoreView, compared: ComparisonView, tests: int) -> bool:
    """Whether a checkpoint at chance is significantly worse than an earlier one, above chance, with which it was
    `compared`: one of many that was above chance by luck does not count. p is adjusted for the number of tests."""
    fell = compared.difference is not None and (compared.difference.value or 0.0) < 0
    return is_above_chance(before) and fell and compared.p is not None and compared.p * tests < ALPHA
