"""What a failed exchange means, and how long to wait. Nothing here ever ends in a verdict.

| what came back                              | meaning                                                     |
|---------------------------------------------|-------------------------------------------------------------|
| 408, 409, 425, 5xx, time-out, broken line   | `again`: the request is sent again after a while            |
| a reply that is no completion               | `again`                                                     |
| 429                                         | `throttled`: the key pauses, by Retry-After if there is one |
| 401, 402, 404, 3xx, 429 without any quota   | `key`: the key is no use until somebody looks               |
| 403                                         | `denied`: the key, or this one prompt: the pool finds out   |
| 400, 413, 415, 422, 451, other 4xx          | `refused`: this request will never do as it is              |
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage, error_text

Meaning = Literal["again", "throttled", "key", "denied", "refused"]

BASE_S = 0.5
LONGEST_S = 60.0
LONGEST_RETRY_AFTER_S = 3600.0
_AGAIN = frozenset({408, 409, 425})
_KEY = {
    401: "the key is not accepted",
    402: "there is no credit",
    404: "there is no such route or model",
    405: "there is no such route",
}
_NO_QUOTA = ("insufficient_quota", "billing")


@dataclass(frozen=True, slots=True)
class ExchangeFailure:
    """A failed exchange. `wait_s` is what the server asked for; `text` is for people, and may still hold keys. `usage`
    is what a reply that cannot be used has cost all the same."""

    meaning: Meaning
    text: str
    status: int = 0
    wait_s: float | None = None
    timed_out: bool = False
    usage: TokenUsage = NOTHING


def failure_of(status: int, headers: Mapping[str, str], body: bytes, wall: datetime | None = None) -> ExchangeFailure:
    """Return what a response without success means. Header names are lower-case."""
    code, message = error_text(body)
    text = f"HTTP {status}" + (f": {message}" if message else f" ({code})" if code else "")
    if status == 429:
        if any(word in code.lower() for word in _NO_QUOTA):
            return ExchangeFailure("key", f"the quota is used up ({text})", status)
        return ExchangeFailure("throttled", text, status, retry_after_s(headers, wall))
    if status in _KEY:
        return ExchangeFailure("key", f"{_KEY[status]} ({text})", status)
    if "credit balance" in message.lower():
        return ExchangeFailure("key", f"there is no credit ({text})", status)
    if 300 <= status < 400:
        return ExchangeFailure("key", f"it redirects, which is not followed; correct base_url ({text})", status)
    if status == 403:
        return ExchangeFailure("denied", text, status)
    if status in _AGAIN or status >= 500 or status < 200:
        return ExchangeFailure("again", text, status, retry_after_s(headers, wall))
    return ExchangeFailure("refused", text, status)


def retry_after_s(headers: Mapping[str, str], wall: datetime | None = None) -> float | None:
    """Return the seconds to wait by Retry-After (seconds, or a date, relative to the server's own Date) or
    retry-after-ms; None if neither is given."""
    milliseconds, text = _number(headers.get("retry-after-ms", "")), headers.get("retry-after", "").strip()
    if milliseconds is not None:
        return min(milliseconds / 1000, LONGEST_RETRY_AFTER_S)
    seconds = _number(text)
    if seconds is None and text:
        at, reference = _date(text), _date(headers.get("date", "")) or wall or datetime.now(UTC)
        seconds = max((at - reference).total_seconds(), 0.0) if at else None
    return None if seconds is None else min(seconds, LONGEST_RETRY_AFTER_S)


def back_off_s(level: int, dice: random.Random) -> float:
    """Return 0.5 s, doubled for each level up to a minute, with jitter so that not all requests come back at once."""
    return float(min(BASE_S * 2 ** min(level, 20), LONGEST_S) * dice.uniform(0.5, 1.0))


def _number(text: str) -> float | None:
    plain = text.strip()
    fits = 0 < len(plain) <= 15 and plain.isascii() and plain.replace(".", "", 1).isdigit()
    return float(plain) if fits else None


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text[:100])
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
