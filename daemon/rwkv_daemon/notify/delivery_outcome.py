"""The outcome of a delivery attempt, and how long to wait before the next. Pure."""

import random
from dataclasses import dataclass
from typing import Final

FIRST_WAIT_S: Final = 5.0
LONGEST_WAIT_S: Final = 3600.0
MOST_TRIES: Final = 24
"""With the waits below, a notice is given up after about 14 hours of failures."""

AGAIN: Final = frozenset({408, 425, 429})
"""Client errors that may pass; every other 4xx will be the same next time."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """`error` is empty if the notice was delivered; `final`: a retry would fail as well."""

    error: str = ""
    final: bool = False


SENT: Final = DeliveryOutcome()


def of_status(status: int) -> DeliveryOutcome:
    """Return what an HTTP status means for a delivery."""
    if 200 <= status < 300:
        return SENT
    if 300 <= status < 400:
        return DeliveryOutcome(
            f"it redirects (HTTP {status}), which is not followed: set the address it leads to", final=True
        )
    return DeliveryOutcome(f"HTTP {status}", final=400 <= status < 500 and status not in AGAIN)


def wait_s(tries: int, dice: random.Random) -> float:
    """Return the seconds until the next try after `tries` failures: doubled each time, up to an hour, with a random
    fifth so that many daemons do not return at once."""
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(tries - 1, 20)) * dice.uniform(0.8, 1.2))
