"""Wall time as the store and the wire spell it. Durations use time.monotonic(), never this."""

from datetime import UTC, datetime


def now() -> str:
    """Return the current time as RFC 3339 in UTC with milliseconds."""
    return stamp(datetime.now(UTC).timestamp())


def stamp(at: float) -> str:
    """A time (epoch) as it is spelled."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
