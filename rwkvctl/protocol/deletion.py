"""What deleting jobs would lose, deleting them, bringing them back, and removing them for good."""

from msgspec import Struct

from rwkvctl.protocol.ranges import Moment
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.views import ChangedJob


class LossRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/loss`: what would be lost with jobs. Nothing is changed. Named ones; all in a `state`; or, for a prune,
    those that were deleted before a time (RFC 3339, UTC)."""

    jobs: tuple[str, ...] = ()
    state: str = ""
    deleted_before: Moment = ""


class DeleteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/delete`: take jobs that do not run out of every list, until `/v1/undelete` or `/v1/prune`: named ones,
    or all in one state."""

    jobs: tuple[str, ...] = ()
    state: str = ""
    request_id: str = ""


class UndeleteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/undelete`: bring deleted jobs back. One that was not done comes back as stopped."""

    jobs: tuple[str, ...] = ()
    request_id: str = ""


class PruneRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/prune`: remove deleted jobs for good, with their samples, scores and files."""

    jobs: tuple[str, ...] = ()
    request_id: str = ""


class LossReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.loss/1"):
    """The jobs that can go, with their samples, how many of them have a score, and the bytes of their run directories;
    `refused`: the others, and why. `more`: how many jobs of the state can go beside those that are named."""

    jobs: tuple[str, ...]
    samples: int
    scores: int
    bytes: int
    more: int = 0
    refused: tuple[ChangedJob, ...] = ()
