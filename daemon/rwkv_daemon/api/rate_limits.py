"""How much one client may ask of the daemon: connections, requests at once, memory, requests a second."""

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
"""One takes a third of a megabyte: so many take no more than 170 MB."""
FOLLOWERS_OF_ONE: Final = 1024
"""Connections that one user gets where files are plenty: a thousand followers, and room to look what they do."""
HELD_FOR_ONE_BYTES: Final = 64 * 1024 * 1024
BURST_S: Final = 10.0
MOST_METERS: Final = 1024


def connections(open_files: int) -> int:
    """Connections of strangers to one socket. A quarter of the files that may be open: another goes to those who are
    told to come back, one to admins, and one stays the daemon's."""
    return max(8, min(MOST_CONNECTIONS, open_files // 4))


def connections_over_tls(open_files: int) -> int:
    """The same for the socket that other machines reach."""
    return min(MOST_OVER_TLS, connections(open_files))


def share(most: int, followers: int = FOLLOWERS_OF_ONE) -> ClientShare:
    """What one user, or one address, may have of so many connections."""
    return ClientShare(min(most, max(followers, most // 2)), HANDLED_FOR_ONE, HELD_FOR_ONE_BYTES)


def open_files() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft > 0 else 1 << 20


@dataclass(slots=True)
class Bucket:
    """Room for requests: it fills with time and each request takes one."""

    room: float
    at: float


@dataclass(slots=True)
class RateLimiter:
    """A bucket for each client. Pure: the time is given."""

    buckets: dict[Hashable, Bucket] = field(default_factory=dict)

    def allows(self, who: Hashable, now: float, *, rate: float, burst: float) -> bool:
        """Whether one more request fits: `rate` a second for long, `burst` at once."""
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
        """Drop the buckets of those who have been away so long that theirs are full again."""
        self.buckets = {who: bucket for who, bucket in self.buckets.items() if now - bucket.at < full_after_s}
