"""Run a program once more if the machine disturbed it. Reruns happen one at a time; other programs go on."""

import threading
from collections.abc import Callable

from rwkv_data.sandbox.program import ProgramOutcome

_ONE_AT_A_TIME = threading.Lock()


def rerun_if_disturbed(once: Callable[[], ProgramOutcome]) -> ProgramOutcome:
    """Return the outcome of a program. If the machine may have starved or killed it, return that of a second run."""
    outcome = once()
    if not outcome.starved and outcome.status != "lost":
        return outcome
    with _ONE_AT_A_TIME:
        return once()
