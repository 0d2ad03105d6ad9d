"""The statistics of an exchange as plain values for the console. Keys are masked by their own representation."""

from collections.abc import Iterable
from dataclasses import dataclass

from rwkv_daemon.remote.server_reply import TokenUsage

LATENCIES = 4096
RECENT_S = 60.0


@dataclass(frozen=True, slots=True)
class KeyStats:
    """One key: its masked name, what it is doing, and its state in words ("ok", "out: the key is not accepted")."""

    name: str
    state: str
    in_flight: int
    allowed: int


@dataclass(frozen=True, slots=True)
class EndpointStats:
    """One endpoint. `counts` holds ok, 429, 5xx, timeout, failed and retries, and `unreadable`: replies that left a
    sample without a verdict since the keys were last revived. `rate`: requests a second over the last minute."""

    name: str
    model: str
    in_flight: int
    room: int
    rate: float
    p50_s: float | None
    p95_s: float | None
    counts: dict[str, int]
    usage: TokenUsage
    structured: bool
    keys: tuple[KeyStats, ...]


@dataclass(frozen=True, slots=True)
class FlightStats:
    """A request in flight: `job` names every job that waits for it, `seconds` is the time since this attempt was
    sent."""

    job: str
    label: str
    seconds: float
    attempt: int
    last_error: str


@dataclass(frozen=True, slots=True)
class JobStats:
    """A job: how many samples wait, have a verdict or an answer (`judged`) or will have none (`unjudged`), what it has
    cost, and why it waits, if it does."""

    job: str
    waiting: int
    judged: int
    unjudged: int
    usage: TokenUsage
    parked: str


@dataclass(frozen=True, slots=True)
class ServiceStats:
    """The whole service. `parked` says why nothing is sent: an outage, the budget, a pause; empty if something is.
    `from_cache` counts replies that were known already."""

    model: str
    parked: str
    queue: int
    in_flight: int
    rate: float
    outages: int
    outage_s: float
    usage: TokenUsage
    endpoints: tuple[EndpointStats, ...]
    jobs: tuple[JobStats, ...]
    flights: tuple[FlightStats, ...]
    budget: float
    budget_tokens: int
    budget_resets: str
    from_cache: int


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the value below which a share of the values lies (nearest rank); None if there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None
