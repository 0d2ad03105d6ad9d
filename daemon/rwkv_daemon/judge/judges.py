"""The judge and the checker, as the daemon holds them in memory."""

from collections import deque
from dataclasses import dataclass, field

from rwkv_daemon.judge.judge_service import JudgeService
from rwkv_daemon.remote.dispatcher import ExchangeEvent


@dataclass(slots=True)
class Judges:
    """The services that ask other models; None if they are not configured."""

    judge: JudgeService | None = None
    checker: JudgeService | None = None
    calibrations: dict[str, str] = field(default_factory=dict)
    """How well the judge agrees with known verdicts, as a sentence for each of its rules."""

    says: deque[ExchangeEvent] = field(default_factory=lambda: deque(maxlen=100))
    """Events of judge and checker that are not stored yet."""
