"""Whether a kind of work ends sooner with one engine more. Pure."""

import math
from dataclasses import dataclass
from typing import Final

LOAD_S: Final = 30.0
"""How long an engine is taken to load where it was never measured."""
PAYS: Final = 2.0
"""Times of loading that must lie ahead of each engine before another is worth starting: a figure may be wrong by half,
and a GPU that loads does nothing else."""
PART: Final = 128
"""Samples that keep one engine busy: a job of fewer is not split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What lies ahead of a kind of work, its running and waiting jobs together. `work_s`: at least so many seconds of
    one engine, None if nothing of it was ever measured; `samples`: how many; `running`: jobs; `priority`: the highest
    of them."""

    work_s: float | None = None
    samples: int = 0
    running: int = 0
    priority: int = 0
    load_s: float = LOAD_S
    need_bytes: int = 0


def pays(outlook: Outlook, engines: int, *, full: bool, coming: bool, displaces: bool = False) -> bool:
    """Whether to start one engine more beside `engines`, those that are coming included.

    With one more, work that would take W/n takes (W + load)/(n + 1): sooner if W/n is more than the time to load. Where
    that is not known to be so, only if all are full, and one at a time: jobs wait, however short they may be.
    `displaces`: a warm engine must go for it."""
    if full and not coming:
        return True
    if outlook.work_s is None:
        return False
    if engines >= math.ceil(outlook.samples / PART):
        return False
    margin = 2 * PAYS if displaces else PAYS
    return outlook.work_s / max(engines, 1) > margin * outlook.load_s
