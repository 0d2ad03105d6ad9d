"""Whether a kind of work ends sooner with one more engine. Pure."""

import math
from dataclasses import dataclass
from typing import Final

LOAD_S: Final = 30.0
"""Assumed loading time of an engine if it was never measured."""
PAYS: Final = 2.0
"""How many times the loading time must lie ahead of each engine before another is worth starting: an estimate may be
wrong by half, and a GPU that loads does nothing else."""
PART: Final = 128
"""Samples that keep one engine busy: a smaller job is not split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What lies ahead of a kind of work, its running and waiting jobs together. `work_s`: at least so many seconds of
    one engine, None if nothing is known; `samples`: how many; `running`: jobs; `priority`: the highest of them."""

    work_s: float | None = None
    samples: int = 0
    running: int = 0
    priority: int = 0
    load_s: float = LOAD_S
    need_bytes: int = 0


def pays(outlook: Outlook, engines: int, *, full: bool, coming: bool, displaces: bool = False) -> bool:
    """Whether to start one more engine beside `engines`, those that are starting included.

    With one more, work that would take W/n takes (W + load)/(n + 1): sooner if W/n is more than the time to load. If
    that is not known, only if all engines are full, and one at a time: jobs wait, however short they may be.
    `displaces`: a warm engine must be unloaded for it.
    """
    if full and not coming:
        return True
    if outlook.work_s is None:
        return False
    if engines >= math.ceil(outlook.samples / PART):
        return False
    margin = 2 * PAYS if displaces else PAYS
    return outlook.work_s / max(engines, 1) > margin * outlook.load_s
