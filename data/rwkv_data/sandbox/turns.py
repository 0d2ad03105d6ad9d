"""A program that the machine disturbed is run once more, beside no other such one. Everyone else goes on."""

import threading
from collections.abc import Callable

from rwkv_data.sandbox.program import Outcome

_ONE_AT_A_TIME = threading.Lock()


def again_if_disturbed(once: Callable[[], Outcome]) -> Outcome:
    """What comes of a program; if the machine may have kept it from running, or killed it, of its second run."""
    outcome = once()
    if not outcome.starved and outcome.status != "lost":
        return outcome
    with _ONE_AT_A_TIME:
        return once()
