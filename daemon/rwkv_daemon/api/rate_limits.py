"""Limits for each client: connections, requests at once, memory, requests a second."""

import resource
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from rwkvctl.http.admission import ClientShare

LONGEST_BODY_BYTES: Final = 8 * 1024 * 1024
HANDLED_AT_ONCE: Final = 128
HANDLED_FOR_ONE: Final = 48
MOST_CONNECTIONS: Final = 4096
MOST_OVER_TLS: Final = 512
"""A TLS connection takes a third of a megabyte: this many take at most 170 MB."""
FOLLOWERS_OF_ONE: Final = 1024
"""Connections of one user where files are plenty: a thousand followers, and some for other requests."""
HELD_FOR_ONE_BYTES: Final = 64 * 1024 * 1024
BURST_S: Final = 10.0
MOST_METERS: Final = 1024


def connections(open_files: int) -> int:
    """Return how many connections of other users one socket admits: a quarter of the files that may be open. A second
    quarter is for connections that are being refused, a third for admins, and the last for the daemon itself."""
    return max(8, min(MOST_CONNECTIONS, open_files // 4))


def connections_over_tls(open_files: int) -> int:
    """Return how many connections the TCP socket admits."""
    return min(MOST_OVER_TLS, connections(open_files))


def share(most: int, followers: int = FOLLOWERS_OF_ONE) -> ClientShare:
    """Return what one user, or one address, may have of `most` connections."""
    return ClientShare(min(most, max(followers, most // 2)), HANDLED_FOR_ONE, HELD_FOR_ONE_BYTES)


def open_files() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft > 0 else 1 << 20


@dataclass(slots=True)
class Bucket:
    """A token bucket: `room` grows with time, and each request takes one."""

    room: float
    at: float


@dataclass(slots=True)
class RateLimiter:
    """A token bucket for each client. Pure: the time is passed in."""

    buckets: dict[Hashable, Bucket] = field(default_factory=dict)

    def allows(self, who: Hashable, now: float, *, rate: float, burst: float) -> bool:
        """Whether one more request is within the limit of `rate` a second, with bursts of `burst`."""
        bucket = self.buckets.setdefault(who, Bucket(burst, now))
        bucket.room = min(burst, bucket.room + rate * max(0.0, now - bucket.at))
        bucket.at = now
        if len(self.buckets) > MOST_METERS:
            self.forget(now, burst / rate)
        if bucket.room < 1:
            return False
        bucket.room -= 1
        return True

    def forget(self, now: float, full_after_s: float) -> None:
        """Drop the buckets that nobody has used for `full_after_s`: they are full again."""
        self.buckets = {who: bucket for who, bucket in self.buckets.items() if now - bucket.at < full_after_s}
