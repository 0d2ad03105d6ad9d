"""Whether an orphan has been without life for long enough: the grace window, as a pure function of what was seen.

One look proves nothing, and what could not be measured counts against acting: utilisation is busy, idle or unknown, and
unknown is not idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rwkv_daemon.gpus.zombies.phrases import span

FEWEST_LOOKS: Final = 3
LONGEST_GAP_S: Final = 5.0
"""Longest gap between two looks in seconds; after a longer one the window begins anew, since nobody knows what
happened."""


@dataclass(frozen=True, slots=True)
class OrphanObservation:
    """What one look at an orphan saw. `at` is monotonic; `utilisation` is the GPU's, null where it is not known or the
    reading failed."""

    at: float
    utilisation: float | None
    cpu_s: float
    log_bytes: int


@dataclass(frozen=True, slots=True)
class GraceWindow:
    """The grace window: how long the attempt must have ended, and how long there must have been no sign of life."""

    grace_s: float = 60.0
    idle_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One condition: whether it holds, and what was measured, in words."""

    name: str
    holds: bool
    value: str


def gather(
    looks: Sequence[OrphanObservation], *, ended_s: float, clock: float, window: GraceWindow
) -> tuple[Evidence, ...]:
    """Every condition of an automatic end. `ended_s` is how long ago the attempt ended by the store's clock, which may
    have jumped: the looks, which are monotonic, must cover the grace as well."""
    seen = unbroken(looks, clock)
    covered = seen[-1].at - seen[0].at if seen else 0.0
    recent = since(seen, clock - window.idle_s)
    needed = max(window.idle_s, window.grace_s)
    return (
        Evidence(
            "ended", ended_s >= window.grace_s, f"its attempt ended {span(ended_s)} ago (needed {span(window.grace_s)})"
        ),
        Evidence(
            "watched",
            covered >= needed and len(seen) >= FEWEST_LOOKS,
            f"watched for {span(covered)} in {len(seen)} looks (needed {span(needed)}, {FEWEST_LOOKS} looks)",
        ),
        idle(recent),
        still("no CPU time", [look.cpu_s for look in recent], "{:.2f} s of CPU time"),
        still("no log", [float(look.log_bytes) for look in recent], "{:.0f} bytes of log"),
    )


def unbroken(looks: Sequence[OrphanObservation], clock: float) -> list[OrphanObservation]:
    """The looks since the last gap, oldest first; none if the last one is too old."""
    found: list[OrphanObservation] = []
    later = clock
    for look in reversed(looks):
        if later - look.at > LONGEST_GAP_S:
            break
        found.append(look)
        later = look.at
    return found[::-1]


def since(looks: Sequence[OrphanObservation], moment: float) -> Sequence[OrphanObservation]:
    """The looks after a moment, and the last one before it: counters are compared with what they were then."""
    before = sum(look.at <= moment for look in looks)
    return looks[max(0, before - 1) :]


def idle(looks: Sequence[OrphanObservation]) -> Evidence:
    """No look found the GPU busy, and every one could tell."""
    values = [look.utilisation for look in looks]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Evidence("idle", False, f"utilisation is not known in {len(values) - len(known)} of {len(values)} looks")
    most = max(known, default=0.0)
    return Evidence("idle", bool(known) and most == 0, f"highest utilisation {100 * most:.0f} %")


def still(name: str, values: Sequence[float], words: str) -> Evidence:
    """Return the finding whether a counter stayed constant over the window; it fails without values. `words` has a
    place for the growth."""
    grown = values[-1] - values[0] if values else 0.0
    return Evidence(name, bool(values) and max(values) == min(values), words.format(grown) + " in the window")


def complete(findings: Sequence[Evidence]) -> bool:
    return all(finding.holds for finding in findings)
