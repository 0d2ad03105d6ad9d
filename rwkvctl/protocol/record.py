"""What was done on the wire: the job log, and the command that repeats a job."""

from msgspec import Struct, field

from rwkvctl.protocol.ranges import Count, Moment, Number
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import JobState


class JobLogRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/job-log`: every job ever queued, newest first: who ran what, when, with which result. `since` is a time
    (RFC 3339, UTC), and so is `at`: only jobs that ran then, or at any moment between then and `until`; `before` is a
    cursor from `next`."""

    since: Moment = ""
    session: str = ""
    model: str = ""
    suite: str = ""
    limit: Count = 100
    before: Number = 0
    at: Moment = ""
    until: Moment = ""


class JobLogView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job. `user` is who dispatched it, empty for scores of other programs, and from before there was an audit
    trail; `config` is its generation key, the hash of all that decides what is generated; `result` is a sentence.
    `suite` and `note` are those of the dispatch."""

    job: str
    session: str
    user: str = ""
    model: str
    benchmark: str
    kind: str
    version: int
    state: JobState
    queued: str
    started: str = ""
    finished: str = ""
    samples: int = 0
    limit: int | None = None
    numerics: str = ""
    settings: dict[str, str] = {}
    weights_sha256: str = ""
    config: str = ""
    metric: str = ""
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    result: str = ""
    suite: str = ""
    note: str = ""


class JobLogReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.job-log/1"):
    """One page of the job log; `next` is the cursor of the page after it, 0 at the end."""

    items: tuple[JobLogView, ...]
    next: int = 0


class ReproRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs/{job}/repro`: how to do the same work again."""

    job: str


class ReproReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.repro/1"):
    """`argv` is the command line that queues the same work, `selection` what it selects. `same`: here and now it gives
    the same generation key; else `differs` says in sentences what is another by now. `pins` are facts to check on
    another machine."""

    job: str
    argv: tuple[str, ...]
    selection: Selection = Selection()
    generation_key: str
    same: bool
    differs: tuple[str, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)
