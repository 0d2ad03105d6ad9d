"""What an operator asks the daemon to do with jobs that are there: stop, pause, hold, drain, priorities."""

from msgspec import Struct

from rwkvctl.protocol.ranges import Rank
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.views import ChangedJob, PauseView


class PauseRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/pause`: named jobs, or one of: a model's, a group's, the whole queue, the judge. What runs ends at its
    next batch and keeps what it has; nothing more is asked of judge and checker. `off` lifts such a pause (of jobs:
    `/v1/resume`)."""

    jobs: tuple[str, ...] = ()
    model: str = ""
    group: str = ""
    queue: bool = False
    judge: bool = False
    why: str = ""
    off: bool = False
    request_id: str = ""


class DrainRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/drain`: start nothing new on this node, until `off`. What runs goes on to its end."""

    off: bool = False
    why: str = ""
    request_id: str = ""


class HoldRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/hold`: put jobs aside until they are released."""

    jobs: tuple[str, ...] = ()
    why: str = ""
    request_id: str = ""


class ReleaseRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/release`: let go what `hold` put aside."""

    jobs: tuple[str, ...] = ()
    request_id: str = ""


class PriorityRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/priority`: jobs with a higher one start first."""

    jobs: tuple[str, ...]
    priority: Rank
    request_id: str = ""


class PausesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.pauses/1"):
    """The jobs that were named, every pause in force, and which jobs still run (with a drain: until there are none)."""

    items: tuple[ChangedJob, ...] = ()
    pauses: tuple[PauseView, ...] = ()
    running: tuple[str, ...] = ()
