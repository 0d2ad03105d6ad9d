"""How often our processes may be ended from outside, and what follows from that. Pure.

A `kill -9`, a cleaner of GPUs, a machine that went down: nobody here is to blame. So no try is used up, and no sample,
engine, GPU or job is suspected. What was ended is started again, more slowly each time; a job for which that happens
too often, without progress, is held. From the third kill within an hour the node raises an alarm.
"""

import random
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from rwkv_daemon.rules.exit_rules import wait_s

MOST: Final = 20
"""Kills in a row, without progress, after which a job is held: with the default waits after some two hours."""
LONGEST_S: Final = 600.0
"""The longest wait between two tries."""
TOLD: Final = 3
"""Kills within WINDOW_S from which on there is an alarm."""
WINDOW_S: Final = 3600.0


def in_a_row(kills: int, killed_at: int, stages_done: int) -> int:
    """Return the number of kills of a job without progress, including the one that happened just now."""
    return 1 if stages_done > killed_at else kills + 1


def pause_s(base_s: float, kills: int, draw: random.Random) -> float:
    """Return how long to wait after so many kills in a row."""
    return min(LONGEST_S, wait_s(base_s, kills - 1, draw))


@dataclass(slots=True)
class RecentKills:
    """The kills of the last hour, as far as this daemon has seen them. Times are monotonic seconds."""

    at: deque[float] = field(default_factory=deque)
    last: str = ""
    whose: Hashable = None

    def note(self, at: float, what: str, whose: Hashable) -> bool:
        """Count a kill; returns whether to raise an alarm (again): at three, six, twelve ... A kill of the same process
        as the last one is the same kill, which could not be stored then."""
        if whose != self.whose or not self.at:
            self.at.append(at)
        self.last, self.whose = what, whose
        rounds, rest = divmod(self.count(at), TOLD)
        return rest == 0 and rounds.bit_count() == 1

    def count(self, at: float) -> int:
        while self.at and at - self.at[0] > WINDOW_S:
            self.at.popleft()
        return len(self.at)

    def sentence(self, at: float) -> str:
        """Return the sentence for the operator; empty while there are few kills."""
        if (count := self.count(at)) < TOLD:
            return ""
        return (
            f"something outside rwkvctl ended {count} of its processes within the hour, the last one: {self.last}. "
            "Their work goes on, more slowly each time; find out who kills them (dmesg, a cleaner of GPUs, cron)"
        )
