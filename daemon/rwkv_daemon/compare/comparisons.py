"""Comparisons that were made, and those that are being made."""

from dataclasses import dataclass, field

from rwkv_daemon.samples.long_reads import PendingQuestions
from rwkvctl.protocol.views import ComparisonView


@dataclass(slots=True)
class Comparisons:
    """What comparing two scores showed, by what tells them apart; and looks that take longer than a client waits."""

    compared: dict[tuple[object, ...], ComparisonView] = field(default_factory=dict)
    questions: PendingQuestions = field(default_factory=PendingQuestions)
