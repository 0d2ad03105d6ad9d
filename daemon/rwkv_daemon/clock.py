"""Wall time as the store and the wire spell it. Durations use time.monotonic(), never this."""

from datetime import UTC, datetime


def now() -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
