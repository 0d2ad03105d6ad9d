"""Keys and endpoints: which key takes the next request, and what its failures mean for it. No I/O, no clock.

A key is out of use for one of three reasons: it is paused (429, until the server's time or a growing one of ours), it
is `open` (three failures in a row: it is tried with one request at a time, at growing intervals, until one succeeds),
or it is dead (refused by the server: until somebody revives it). If no key is left, that is an outage: requests stay
queued.
"""

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rwkv_daemon.remote.failures import back_off_s
from rwkv_daemon.remote.limits import MinuteWindow
from rwkv_daemon.remote.request import PendingRequest
from rwkv_daemon.remote.request_style import RequestStyle
from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage
from rwkv_daemon.remote.service_stats import LATENCIES
from rwkvctl.settings.judge import EndpointConfig
from rwkvctl.settings.secret import Secret

FAILURES_TO_OPEN = 3
REFUSALS_TO_STOP = 3
NEVER = float("inf")


@dataclass(slots=True, eq=False)
class EndpointState:
    """A server, and what was learned about it."""

    config: EndpointConfig
    style: RequestStyle = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    usage: TokenUsage = NOTHING
    latencies: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LATENCIES))

    def __post_init__(self) -> None:
        self.style = self.first_style

    @property
    def first_style(self) -> RequestStyle:
        """How the server is asked before anything is learned about it: with every field."""
        return RequestStyle(structured=self.config.structured)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of a request; the configured prices are per million tokens."""
        return (prompt_tokens * self.config.prompt_price + completion_tokens * self.config.completion_price) / 1_000_000

    def priced(self, usage: TokenUsage) -> TokenUsage:
        """Return the usage of a request with its cost."""
        return replace(usage, cost=self.cost(usage.prompt_tokens, usage.completion_tokens))


@dataclass(slots=True, eq=False)
class ApiKey:
    """One key at one endpoint. `allowed` is how many requests it may have in flight: fewer after a 429, then slowly
    more."""

    endpoint: EndpointState
    secret: Secret
    number: int
    requests: MinuteWindow
    tokens: MinuteWindow
    allowed: float
    in_flight: int = 0
    last_used: float = 0.0
    pause_until: float = 0.0
    """Until when it is not used, after a 429 or while it is open."""

    changed_at: float = float("-inf")
    """When `level` or `throttles` was last raised: failures of requests sent before count towards the same step."""

    failures: int = 0
    """Failures in a row. `level` counts how often the key was opened since its last success (0: it is not open),
    `throttles` its 429s since then."""

    level: int = 0
    throttles: int = 0
    succeeded: bool = False
    strikes: set[str] = field(default_factory=set)
    """Questions that were refused with 403 or 4xx since the last success."""

    dead: str = ""
    """Why it is out of use until it is revived; empty if it is not."""

    last_error: str = ""

    @property
    def name(self) -> str:
        """Name of the key in logs and on screens, with the secret masked."""
        return f"{self.endpoint.config.label} key {self.number} ({self.secret})"

    @property
    def usable(self) -> bool:
        return not self.dead and self.level == 0

    def ready_at(self, now: float, tokens: int) -> float:
        """Return when it can take a request of so many tokens; NEVER while it is dead or full."""
        if self.dead or self.in_flight >= (1 if self.level else int(self.allowed)):
            return NEVER
        return max(self.pause_until, self.requests.ready_at(now, 1), self.tokens.ready_at(now, tokens), now)

    def state(self, now: float) -> str:
        """State of the key in a few words, for people."""
        if self.dead:
            return f"out: {self.dead}"
        if self.level:
            return f"failing: {self.last_error}"
        return "paused (429)" if self.pause_until > now else "ok"


@dataclass(slots=True)
class KeyPool:
    """All endpoints and keys of one model, of which `pick` chooses the next to use."""

    endpoints: list[EndpointState]
    keys: list[ApiKey]
    dice: random.Random
    successes: int = 0

    @classmethod
    def of(cls, given: Iterable[tuple[EndpointConfig, tuple[Secret, ...]]], dice: random.Random) -> "KeyPool":
        endpoints, keys = [], []
        for config, secrets in given:
            endpoints.append(EndpointState(config))
            for number, secret in enumerate(secrets, 1):
                windows = MinuteWindow(config.requests_per_min), MinuteWindow(config.tokens_per_min)
                keys.append(ApiKey(endpoints[-1], secret, number, *windows, allowed=float(config.concurrency)))
        return cls(endpoints, keys, dice)

    def pick(self, now: float, tokens: int) -> ApiKey | None:
        """Return the least busy key that can take a request now; of several the one that has rested longest. None if
        there is none."""
        ready = [key for key in self.keys if key.ready_at(now, tokens) <= now]
        return min(ready, key=lambda key: (key.in_flight / key.allowed, key.last_used), default=None)

    def when(self, now: float, tokens: int) -> float | None:
        """Return when a key will be ready by itself; None if that takes a reply or a person."""
        first = min((key.ready_at(now, tokens) for key in self.keys), default=NEVER)
        return None if first == NEVER else first

    def succeeded(self, key: ApiKey) -> None:
        """Note that the key has brought a reply: reset its failures and let it send slightly more requests at once."""
        self._answers(key)
        key.succeeded, key.throttles = True, 0
        key.strikes.clear()
        key.allowed = min(key.allowed + 1 / key.allowed, key.endpoint.config.concurrency)

    def refused(self, key: ApiKey, request: PendingRequest, text: str) -> bool:
        """Count a request that the server will never accept. Returns True if the key is out: it has only ever refused,
        so the rows are not to blame."""
        self._answers(key)
        key.strikes.add(request.key)
        if not key.succeeded and len(key.strikes) >= REFUSALS_TO_STOP:
            key.dead = f"it refuses everything ({text})"
        return bool(key.dead)

    def _answers(self, key: ApiKey) -> None:
        self.successes += 1
        if key.level:
            key.pause_until = 0.0
        key.failures, key.level, key.last_error = 0, 0, ""

    def failed(self, key: ApiKey, now: float, asked_at: float, text: str, wait_s: float | None) -> None:
        """Count a temporary failure. Failures of requests that were sent before the last step count towards the same
        step."""
        key.last_error = text
        key.failures += 1
        if wait_s is not None:
            key.pause_until = max(key.pause_until, now + wait_s)
        if key.failures >= FAILURES_TO_OPEN and asked_at >= key.changed_at:
            key.level += 1
            key.changed_at = now
            key.pause_until = max(key.pause_until, now + back_off_s(key.level, self.dice))

    def throttled(self, key: ApiKey, now: float, asked_at: float, wait_s: float | None) -> None:
        """Handle a 429: pause the key, and continue with half as many requests at once."""
        if wait_s is not None:
            key.pause_until = max(key.pause_until, now + wait_s)
        if asked_at >= key.changed_at:
            key.changed_at = now
            key.throttles += 1
            key.allowed = max(1.0, key.allowed / 2)
            if wait_s is None:
                key.pause_until = max(key.pause_until, now + back_off_s(key.throttles, self.dice))

    def denied(self, key: ApiKey, request: PendingRequest, text: str) -> bool:
        """Count a 403, which may concern the key or this prompt (some providers moderate with it). Returns True if the
        key is out: it never worked, or two different requests were denied without a success between them."""
        key.strikes.add(request.key)
        request.denials += 1
        if not key.succeeded or len(key.strikes) > 1:
            key.dead = text
            return True
        return False

    def outage(self) -> str:
        """Return why nothing can be asked at all; empty if something can."""
        if any(key.usable for key in self.keys):
            return ""
        reasons = dict.fromkeys(f"{key.endpoint.config.label}: {key.dead or key.last_error}" for key in self.keys)
        return "; ".join(list(reasons)[:3])

    def revive(self) -> None:
        """Forget the failures of every key, so that each is tried again at once."""
        for key in self.keys:
            key.dead, key.level, key.failures, key.pause_until = "", 0, 0, 0.0
            key.endpoint.counts.pop("unreadable", None)
            key.strikes.clear()
