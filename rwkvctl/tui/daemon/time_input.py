"""Moments as an operator types them into the console: `02:58`, `-2h`, `11-21 02:58`, or a whole date. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rwkvctl.cli import time_argument

TIME: Final = re.compile(r"(?:(\d\d)-(\d\d)[ T])?(\d{1,2}):(\d\d)(?::(\d\d))?")


def moment(text: str, now: datetime | None = None) -> str:
    """RFC 3339 in UTC, to the millisecond. A time of day is the last one before now. Raises RwkvctlError or ValueError
    with a sentence."""
    now = now or datetime.now(UTC)
    text = text.strip().lstrip("@")
    match = TIME.fullmatch(text)
    if match is None:
        return time_argument.moment(text.removeprefix("-"), now)
    month, day, hour, minute, second = (int(part) if part else 0 for part in match.groups())
    at = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if month:
        at = at.replace(month=month, day=day)
        at = at.replace(year=at.year - 1) if at > now else at
    elif at > now:
        at -= timedelta(days=1)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
