"""How well two graders agree on the same samples: a judge with known verdicts, or with a rule grader.

The first of each pair counts as the truth. A sample on which one side gave no verdict is counted as missing, and in no
other number.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of pairs (truth, judge). Shares are None where there is nothing to share."""

    true_positives: int = 0
    false_positives: int = 0
    true_negatives: int = 0
    false_negatives: int = 0
    missing: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[float | None, float | None]]) -> "Agreement":
        """Count pairs of values from 0 to 1, of which 0.5 and more count as right."""
        counts = {(True, True): 0, (False, True): 0, (False, False): 0, (True, False): 0}
        missing = 0
        for truth, judged in pairs:
            if truth is None or judged is None:
                missing += 1
            else:
                counts[truth >= 0.5, judged >= 0.5] += 1
        return cls(counts[True, True], counts[False, True], counts[False, False], counts[True, False], missing)

    @property
    def n(self) -> int:
        """Number of pairs in which both sides gave a verdict."""
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def accuracy(self) -> float | None:
        return _share(self.true_positives + self.true_negatives, self.n)

    @property
    def precision(self) -> float | None:
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float | None:
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float | None:
        return _share(2 * self.true_positives, 2 * self.true_positives + self.false_positives + self.false_negatives)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: agreement beyond what the two base rates give by chance."""
        if not self.n or self.accuracy is None:
            return None
        truth = (self.true_positives + self.false_negatives) / self.n
        judged = (self.true_positives + self.false_positives) / self.n
        chance = truth * judged + (1 - truth) * (1 - judged)
        return None if chance == 1 else (self.accuracy - chance) / (1 - chance)

    def sentence(self) -> str:
        """Return the agreement as it is printed beside the scores: `35 of 36 right (97.2 %), 1 false positive, kappa
        0.94`."""
        if not self.n or self.accuracy is None:
            return f"{'FAIL: ' if self.missing else ''}no verdicts ({self.missing} missing)"
        kappa = "" if self.kappa is None else f", kappa {self.kappa:.2f}"
        missing = f", {self.missing} without a verdict" if self.missing else ""
        return (
            f"{self.true_positives + self.true_negatives} of {self.n} right ({self.accuracy:.1%}), "
            f"{self.false_positives} false positive, {self.false_negatives} false negative{kappa}{missing}"
        )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
