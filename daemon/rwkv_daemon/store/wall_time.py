"""Wall time in the format of the store and the protocol. Durations use time.monotonic(), never this."""

from datetime import UTC, datetime


def now() -> str:
    """Return the current time as RFC 3339 in UTC with milliseconds."""
    return stamp(datetime.now(UTC).timestamp())


def stamp(at: float) -> str:
    """Return a time (seconds since 1970) in this format."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
