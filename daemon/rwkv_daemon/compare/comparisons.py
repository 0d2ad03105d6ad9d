"""Comparisons that were computed, and those in progress."""

from dataclasses import dataclass, field

from rwkv_daemon.samples.long_reads import PendingQuestions
from rwkvctl.protocol.views import ComparisonView


@dataclass(slots=True)
class Comparisons:
    """Finished comparisons of two scores, by what identifies them (`compared`); and comparisons that take longer than a
    client waits (`questions`)."""

    compared: dict[tuple[object, ...], ComparisonView] = field(default_factory=dict)
    questions: PendingQuestions = field(default_factory=PendingQuestions)
