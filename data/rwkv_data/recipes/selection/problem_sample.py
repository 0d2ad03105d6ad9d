"""A sample of a problem with its verdict.

A problem's samples are ordered by (completion tokens, turn), in whatever order they came.
Without a verdict a sample takes no part in anything. One that the token limit cut off is never chosen; but it is a
sample with a verdict all the same: it counts for the pass-rate, and it may be the rejected side of a pair.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSample:
    """`number` is that of the store, which depends on the order in which samples came. `turn`, its job's place in the
    recipe and its repeat there, is unique among the problem's samples and the same whenever they are sampled. `tokens`
    are those of the completion. `value` is the grade, None without a verdict. `cut_off`: the token limit ended it."""

    number: int
    turn: tuple[int, int]
    tokens: int
    value: float | None
    cut_off: bool

    @property
    def place(self) -> tuple[int, tuple[int, int]]:
        """The sort key among the samples of the problem."""
        return self.tokens, self.turn

    @property
    def is_correct(self) -> bool:
        """Whether its verdict is that it is right; a grade between 0 and 1 is not."""
        return self.value is not None and self.value >= 1

    @property
    def may_be_chosen(self) -> bool:
        """Whether it is correct and ended by itself."""
        return self.is_correct and not self.cut_off


def with_verdict(samples: Iterable[ProblemSample]) -> list[ProblemSample]:
    """Return the samples that take part, in their order."""
    return sorted((sample for sample in samples if sample.value is not None), key=lambda sample: sample.place)
