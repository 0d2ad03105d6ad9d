"""Comparisons that were computed, and those in progress."""

from dataclasses import dataclass, field

from rwkv_daemon.compare.row_parts import KnownParts
from rwkv_daemon.samples.long_reads import PendingQuestions
from rwkvctl.protocol.views import ComparisonView, ScoreView


@dataclass(slots=True)
class Comparisons:
    """Finished comparisons of two scores, by what identifies them (`compared`); scores of a part of the rows
    (`of_parts`), and which rows these are (`parts`); and comparisons that take longer than a client waits
    (`questions`)."""

    compared: dict[tuple[object, ...], ComparisonView] = field(default_factory=dict)
    of_parts: dict[tuple[object, ...], ScoreView] = field(default_factory=dict)
    parts: KnownParts = field(default_factory=KnownParts)
    questions: PendingQuestions = field(default_factory=PendingQuestions)
