"""Notifications on the wire: who is told of what, and how that goes."""

from msgspec import Struct

from rwkvctl.protocol.replies import Reply


class NotifyRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/notify`: who is told, and what waits."""


class NotifyTest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/notify/test`: send a test notice to one target, or to all, now; answers when all tries are over."""

    target: str = ""
    request_id: str = ""


class NotifyView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table [[notify]]. `to` is a host or a program, never a whole address, which may be secret; `last_error` is
    empty where the last try went well."""

    name: str
    kind: str
    to: str
    events: tuple[str, ...]
    signed: bool = False
    waiting: int = 0
    sent: int = 0
    given_up: int = 0
    last_error: str = ""


class NotifyReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.notify/1"):
    """Everybody who is told; `sent` and `given_up` count the last seven days."""

    items: tuple[NotifyView, ...]


class TriedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one test; `error` is empty where it arrived."""

    name: str
    seconds: float
    error: str = ""


class NotifyTestReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.notify-test/1"):
    """The outcome of the test notice at each target."""

    items: tuple[TriedView, ...]
