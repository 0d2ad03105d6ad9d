"""Moments as an operator types them: a date, a time, or an age."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rwkvctl.protocol.errors import Exit, RwkvctlError

AGE: Final = re.compile(r"(\d{1,6})\s*([smhdw])")
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class TimeArgumentError(RwkvctlError):
    """An argument is not a date, a time or an age."""

    exit_code = Exit.USAGE


def moment(text: str, now: datetime | None = None) -> str:
    """Return `36h`, `2026-11-01` or `2026-11-01T12:00Z` as RFC 3339 in UTC; a time without a zone is UTC. Raises
    MomentError."""
    now = now or datetime.now(UTC)
    try:
        if age := AGE.fullmatch(text.strip()):
            at = now - timedelta(**{UNITS[age[2]]: int(age[1])})
        else:
            at = datetime.fromisoformat(text.strip())
        at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        what = "give an age like 10m, 36h or 7d, or a time like 2026-11-01T12:00Z"
        raise TimeArgumentError(f"'{text}' is not a time: {what}.") from error
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
