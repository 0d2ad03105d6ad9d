"""The audit trail on the wire: who changed what, when, and what came of it."""

from msgspec import Struct

from rwkvctl.protocol.ranges import Count, Moment, Number
from rwkvctl.protocol.replies import Reply


class AuditRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/audit`: entries, newest first. `since` is a time (RFC 3339, UTC); `user` a name or a uid; `before` a
    cursor from `next`."""

    since: Moment = ""
    user: str = ""
    verb: str = ""
    limit: Count = 100
    before: Number = 0


class AuditView(Struct, frozen=True, kw_only=True):
    """One change, or an attempt at one. A uid of -1 is a client with a token, whose name `user` is then."""

    id: int
    at: str
    uid: int
    gid: int
    pid: int
    user: str
    verb: str
    target: str
    outcome: str
    data: dict[str, object] = {}


class AuditReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.audit/1"):
    """One page of the audit trail; `next` is the cursor of the page after it, 0 at the end."""

    items: tuple[AuditView, ...]
    next: int = 0
