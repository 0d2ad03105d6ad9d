"""Requests to the daemon, its replies, and the events it streams.

Every reply has `schema` (name and version), `as_of` (RFC 3339, UTC) and `node`. Unknown fields are ignored
on both sides and new fields have defaults, so a client one version older or newer works.
"""

from typing import Final

import msgspec
from msgspec import Struct

from rwkvctl.protocol.requests import (
    BenchmarksRequest,
    CompareRequest,
    DispatchRequest,
    EventsRequest,
    ImportRequest,
    InfoRequest,
    JobRequest,
    JobsRequest,
    JudgeRequest,
    JudgeRetry,
    LogsRequest,
    ModelSelect,
    ModelsRequest,
    NamedCheckpoint,
    PlanRequest,
    RegradeRequest,
    ResumeRequest,
    ReviewMark,
    ReviewRequest,
    SamplesRequest,
    ScoresRequest,
    SearchRequest,
    SearchSelect,
    Selection,
    StatusRequest,
    StopRequest,
)
from rwkvctl.protocol.views import (
    BenchmarkView,
    ChangedJob,
    ComparisonView,
    EngineView,
    FindingView,
    FlipView,
    ImportedView,
    JobView,
    JudgeView,
    LeaseView,
    MetricView,
    ModelView,
    PlanRow,
    PointView,
    SampleView,
    ScoreView,
    StageView,
)

__all__ = [
    "PROTOCOL",
    "ROUTES",
    "AnyReply",
    "BenchmarkView",
    "BenchmarksReply",
    "BenchmarksRequest",
    "ChangedJob",
    "ChangedReply",
    "CompareReply",
    "CompareRequest",
    "ComparisonView",
    "DispatchReply",
    "DispatchRequest",
    "EngineView",
    "ErrorReply",
    "Event",
    "EventsRequest",
    "FindingView",
    "FlipView",
    "ImportReply",
    "ImportRequest",
    "ImportedView",
    "InfoReply",
    "InfoRequest",
    "JobReply",
    "JobRequest",
    "JobView",
    "JobsReply",
    "JobsRequest",
    "JudgeReply",
    "JudgeRequest",
    "JudgeRetry",
    "JudgeView",
    "LeaseView",
    "LogChunk",
    "LogsRequest",
    "MetricView",
    "ModelSelect",
    "ModelView",
    "ModelsReply",
    "ModelsRequest",
    "NamedCheckpoint",
    "PlanReply",
    "PlanRequest",
    "PlanRow",
    "PointView",
    "PromotionReply",
    "RegradeRequest",
    "Reply",
    "Request",
    "ResumeRequest",
    "ReviewMark",
    "ReviewReply",
    "ReviewRequest",
    "SampleView",
    "SamplesReply",
    "SamplesRequest",
    "ScoreView",
    "ScoresReply",
    "ScoresRequest",
    "SearchReply",
    "SearchRequest",
    "SearchSelect",
    "Selection",
    "StageView",
    "StatusReply",
    "StatusRequest",
    "StopRequest",
    "Stream",
    "event_decoder",
    "log_decoder",
    "reply_decoder",
]

PROTOCOL: Final = 1
"""Version of the wire protocol, sent in the `rwkvctl-protocol` header of every request and response."""


class Reply(Struct, frozen=True, kw_only=True, tag_field="schema"):
    """What every reply carries besides its own fields; `schema` is written first."""

    as_of: str = ""
    node: str = ""


class InfoReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.info/1"):
    """Who answers, and which protocol versions it speaks."""

    version: str
    api_min: int
    api_max: int
    pid: int
    home: str
    started: str


class ErrorReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.error/1"):
    """A refusal (RFC 9457 in spirit): a stable code, one sentence, and what to do. `exit_code` is the CLI's."""

    code: str
    detail: str
    hint: str = ""
    status: int = 400
    exit_code: int = 1


class StatusReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.status/1"):
    """The Overview: what holds what, what runs, what waits and why."""

    version: str
    uptime_s: float
    counts: dict[str, int]
    leases: tuple[LeaseView, ...]
    engines: tuple[EngineView, ...]
    running: tuple[JobView, ...]
    waiting: tuple[JobView, ...]
    recent: tuple[JobView, ...] = ()
    disk_free_bytes: int = 0
    last_event: int = 0
    notes: tuple[str, ...] = ()


class PlanReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.plan/1"):
    """A plan in dispatch order. `hash` covers (generation key, action, reason) of every row."""

    hash: str
    rows: tuple[PlanRow, ...]
    counts: dict[str, int]
    computed_ms: float
    models: int
    benchmarks: int
    notes: tuple[str, ...] = ()


class DispatchReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.dispatch/1"):
    """The jobs a dispatch queued, and what it left alone. `repeated`: this request id was answered before."""

    session: str
    jobs: tuple[str, ...]
    plan: PlanReply
    repeated: bool = False


class JobsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.jobs/1"):
    """One page of jobs; `next` is the cursor of the page after it, 0 at the end."""

    items: tuple[JobView, ...]
    counts: dict[str, int]
    next: int = 0


class JobReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.job/1"):
    """One job."""

    item: JobView


class ChangedReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.changed/1"):
    """The jobs a `stop` or `resume` named."""

    items: tuple[ChangedJob, ...]


class SamplesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.samples/1"):
    """One page of samples; `next` is the cursor of the page after it, -1 at the end."""

    items: tuple[SampleView, ...]
    next: int = -1


class ScoresReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.scores/1"):
    """Scores, newest first."""

    items: tuple[ScoreView, ...]


class ModelsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.models/1"):
    """Every model the planner sees."""

    items: tuple[ModelView, ...]


class BenchmarksReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.benchmarks/1"):
    """The catalogue."""

    items: tuple[BenchmarkView, ...]


class CompareReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.compare/1"):
    """Two sides compared. Unlike metrics are never averaged: `counts` says how many benchmarks got which verdict.
    `only_a` and `only_b` name benchmarks (`NAME KIND`) of which only one side has a score."""

    a: str
    b: str
    alpha: float
    items: tuple[ComparisonView, ...]
    counts: dict[str, int]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()


class ImportReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.import/1"):
    """What an import found. `ignored` counts files that hold no results."""

    path: str
    dry_run: bool
    items: tuple[ImportedView, ...]
    counts: dict[str, int]
    session: str = ""
    ignored: int = 0


class JudgeReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.judge/1"):
    """The judge and the checker; none where none is configured. `calibrations`: how far each rule's judge can be
    trusted, as sentences."""

    judges: tuple[JudgeView, ...]
    calibrations: tuple[str, ...] = ()


class ReviewReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.review/1"):
    """One page of findings; `next` is the cursor of the page after it, -1 at the end."""

    items: tuple[FindingView, ...]
    next: int = -1


class SearchReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.search/1"):
    """The points of a search, best first."""

    job: str
    points: tuple[PointView, ...]


class PromotionReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.promotion/1"):
    """The point that searches share as their best, and the session that measures it, if one was asked for."""

    model: str
    settings: dict[str, str]
    objective: float
    searches: tuple[str, ...]
    benchmarks: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    session: str = ""
    jobs: tuple[str, ...] = ()


class LogChunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a log. `offset` is the byte after it in its attempt's file: where a reader goes on."""

    source: str
    text: str
    attempt: int = 0
    offset: int = 0


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact of the node. Stored ones have a growing `seq`; progress and telemetry have none (0) and are not stored.

    kinds: `daemon`, `session`, `job.queued`, `job.state`, `job.progress`, `job.score`, `engine.state`, `engine.stats`,
    `lease`, `heartbeat`. `data` holds the JobView, EngineView or LeaseView as it is after the change.
    """

    kind: str
    at: str
    seq: int = 0
    job: str = ""
    engine: str = ""
    session: str = ""
    text: str = ""
    data: dict[str, object] = {}


Request = (
    InfoRequest
    | StatusRequest
    | PlanRequest
    | DispatchRequest
    | JobsRequest
    | JobRequest
    | StopRequest
    | ResumeRequest
    | RegradeRequest
    | SamplesRequest
    | ScoresRequest
    | ModelsRequest
    | BenchmarksRequest
    | JudgeRequest
    | JudgeRetry
    | ReviewMark
    | ReviewRequest
    | SearchRequest
    | SearchSelect
    | CompareRequest
    | ImportRequest
)
Stream = LogsRequest | EventsRequest
AnyReply = (
    InfoReply
    | ErrorReply
    | StatusReply
    | PlanReply
    | DispatchReply
    | JobsReply
    | JobReply
    | ChangedReply
    | SamplesReply
    | ScoresReply
    | ModelsReply
    | BenchmarksReply
    | JudgeReply
    | ReviewReply
    | SearchReply
    | PromotionReply
    | CompareReply
    | ImportReply
)

ROUTES: Final[dict[type[Struct], tuple[str, str]]] = {
    InfoRequest: ("GET", "/v1/info"),
    StatusRequest: ("GET", "/v1/status"),
    PlanRequest: ("POST", "/v1/plan"),
    DispatchRequest: ("POST", "/v1/dispatch"),
    JobsRequest: ("GET", "/v1/jobs"),
    JobRequest: ("GET", "/v1/jobs/{job}"),
    StopRequest: ("POST", "/v1/stop"),
    ResumeRequest: ("POST", "/v1/resume"),
    RegradeRequest: ("POST", "/v1/regrade"),
    SamplesRequest: ("GET", "/v1/jobs/{job}/samples"),
    ScoresRequest: ("GET", "/v1/scores"),
    ModelsRequest: ("GET", "/v1/models"),
    BenchmarksRequest: ("GET", "/v1/benchmarks"),
    CompareRequest: ("POST", "/v1/compare"),
    ImportRequest: ("POST", "/v1/import"),
    JudgeRequest: ("GET", "/v1/judge"),
    JudgeRetry: ("POST", "/v1/judge/retry"),
    ReviewRequest: ("GET", "/v1/review"),
    ReviewMark: ("POST", "/v1/review"),
    SearchRequest: ("GET", "/v1/search"),
    SearchSelect: ("POST", "/v1/search/select"),
    LogsRequest: ("GET", "/v1/logs/{target}"),
    EventsRequest: ("GET", "/v1/events"),
}
"""Where each request goes: fields named in braces are path segments, the rest is the query (GET) or the body (POST)."""

reply_decoder: Final = msgspec.json.Decoder(AnyReply)
event_decoder: Final = msgspec.json.Decoder(Event)
log_decoder: Final = msgspec.json.Decoder(LogChunk)
