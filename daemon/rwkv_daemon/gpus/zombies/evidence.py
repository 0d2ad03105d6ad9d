"""Whether an orphan has shown no sign of life for the whole grace window. Pure: a function of the observations.

One observation proves nothing, and what could not be measured counts against ending the process: utilisation is busy,
idle or unknown, and unknown is not idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rwkv_daemon.gpus.zombies.phrases import span

FEWEST_LOOKS: Final = 3
LONGEST_GAP_S: Final = 5.0
"""Longest gap between two observations in seconds; after a longer one the window begins anew, since nobody knows what
happened."""


@dataclass(frozen=True, slots=True)
class OrphanObservation:
    """One observation of an orphan. `at` is monotonic; `utilisation` is the GPU's, None where it is not known or the
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
    """One condition of an automatic end: whether it holds, and what was measured, in words."""

    name: str
    holds: bool
    value: str


def gather(
    observations: Sequence[OrphanObservation], *, ended_s: float, clock: float, window: GraceWindow
) -> tuple[Evidence, ...]:
    """Check every condition of an automatic end. `ended_s` is how long ago the attempt ended by the store's clock,
    which may have jumped: the observations, which are monotonic, must cover the grace period as well."""
    seen = unbroken(observations, clock)
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
        still("no CPU time", [observation.cpu_s for observation in recent], "{:.2f} s of CPU time"),
        still("no log", [float(observation.log_bytes) for observation in recent], "{:.0f} bytes of log"),
    )


def unbroken(observations: Sequence[OrphanObservation], clock: float) -> list[OrphanObservation]:
    """Return the observations since the last gap, oldest first; none if the last one is too old."""
    found: list[OrphanObservation] = []
    later = clock
    for observation in reversed(observations):
        if later - observation.at > LONGEST_GAP_S:
            break
        found.append(observation)
        later = observation.at
    return found[::-1]


def since(observations: Sequence[OrphanObservation], moment: float) -> Sequence[OrphanObservation]:
    """Return the observations after a moment, and the last one before it, with which counters are compared."""
    before = sum(observation.at <= moment for observation in observations)
    return observations[max(0, before - 1) :]


def idle(observations: Sequence[OrphanObservation]) -> Evidence:
    """Check that no observation found the GPU busy, and that none lacks the utilisation."""
    values = [observation.utilisation for observation in observations]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Evidence(
            "idle", False, f"utilisation is not known in {len(values) - len(known)} of {len(values)} observations"
        )
    most = max(known, default=0.0)
    return Evidence("idle", bool(known) and most == 0, f"highest utilisation {100 * most:.0f} %")


def still(name: str, values: Sequence[float], words: str) -> Evidence:
    """Check that a counter stayed constant over the window; fails without values. `words` has a place for the
    growth."""
    grown = values[-1] - values[0] if values else 0.0
    return Evidence(name, bool(values) and max(values) == min(values), words.format(grown) + " in the window")


def complete(findings: Sequence[Evidence]) -> bool:
    return all(finding.holds for finding in findings)
