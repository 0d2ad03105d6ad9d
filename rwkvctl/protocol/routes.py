"""Where each request goes, and the types of all requests and replies.

Every reply has `schema` (name and version), `as_of` (RFC 3339, UTC) and `node`. Unknown fields are ignored
on both sides and new fields have defaults, so a client one version older or newer works.
"""

from typing import Final

import msgspec
from msgspec import Struct

from rwkvctl.protocol.audit import AuditReply, AuditRequest
from rwkvctl.protocol.deletion import DeleteRequest, LossReply, LossRequest, PruneRequest, UndeleteRequest
from rwkvctl.protocol.gpus import (
    GpuChange,
    GpuHistoryReply,
    GpuHistoryRequest,
    GpuProbe,
    GpusChangedReply,
    GpusReply,
    GpusRequest,
)
from rwkvctl.protocol.labels import LabellingReply, LabellingRequest, LabelReply, LabelRequest
from rwkvctl.protocol.notify import NotifyReply, NotifyRequest, NotifyTest, NotifyTestReply
from rwkvctl.protocol.operation import (
    DrainRequest,
    HoldRequest,
    PauseRequest,
    PausesReply,
    PriorityRequest,
    ReleaseRequest,
)
from rwkvctl.protocol.recipes import (
    RecipeChange,
    RecipeCheck,
    RecipePlanReply,
    RecipeReply,
    RecipeRequest,
    RecipeRowsReply,
    RecipeRowsRequest,
    RecipeRun,
    RecipesReply,
    RecipesRequest,
    RewriteReply,
    RewriteRequest,
    VerdictsReply,
    VerdictsRequest,
)
from rwkvctl.protocol.record import JobLogReply, JobLogRequest, ReproReply, ReproRequest
from rwkvctl.protocol.replies import (
    BenchmarksReply,
    ChangedReply,
    CompareReply,
    DispatchReply,
    EndpointsReply,
    ErrorReply,
    ExchangeReply,
    ImportReply,
    InfoReply,
    JobReply,
    JobsReply,
    JudgeReply,
    ModelsReply,
    NowReply,
    OutlineReply,
    PlanReply,
    PromotionReply,
    ReviewReply,
    SameReply,
    SamplesReply,
    ScoresReply,
    SearchReply,
    SoFarReply,
    StatusReply,
    SuitesReply,
)
from rwkvctl.protocol.requests import (
    BenchmarksRequest,
    CompareRequest,
    DispatchRequest,
    EndpointsRequest,
    EndpointsRetry,
    EventsRequest,
    ExchangeRequest,
    ImportRequest,
    InfoRequest,
    JobRequest,
    JobsRequest,
    JudgeRequest,
    JudgeRetry,
    LogsRequest,
    ModelsRequest,
    NowRequest,
    OutlineRequest,
    PlanRequest,
    RegradeRequest,
    ResumeRequest,
    ReviewMark,
    ReviewRequest,
    SameRequest,
    SamplesRequest,
    ScoresRequest,
    SearchRequest,
    SearchSelect,
    SoFarRequest,
    StatusRequest,
    StopRequest,
    SuitesRequest,
)
from rwkvctl.protocol.service import (
    ConfigReply,
    ConfigRequest,
    MetricsReply,
    MetricsRequest,
    ReloadReply,
    ReloadRequest,
)
from rwkvctl.protocol.training.baselines import (
    BaselineAdd,
    BaselinePin,
    BaselineReply,
    BaselinesReply,
    BaselinesRequest,
)
from rwkvctl.protocol.training.feedback import FeedbackReply, FeedbackRequest, FeedbackReveal
from rwkvctl.protocol.training.harnesses import (
    HarnessesReply,
    HarnessesRequest,
    HarnessTasksReply,
    HarnessTasksRequest,
)
from rwkvctl.protocol.training.orders import OrderReply, OrderRequest, OrderUpload
from rwkvctl.protocol.training.watches import (
    WatchAdd,
    WatchChange,
    WatchesReply,
    WatchesRequest,
    WatchReply,
    WatchRequest,
)
from rwkvctl.protocol.zombies import (
    ReapReply,
    ReapRequest,
    ZombiesReply,
    ZombiesRequest,
)

PROTOCOL: Final = 1
"""Version of the wire protocol, sent in the `rwkvctl-protocol` header of every request and response."""


AnyRequest = (
    InfoRequest
    | GpusRequest
    | GpuHistoryRequest
    | GpuChange
    | GpuProbe
    | StatusRequest
    | PlanRequest
    | DispatchRequest
    | JobsRequest
    | JobRequest
    | NowRequest
    | SoFarRequest
    | StopRequest
    | ResumeRequest
    | PauseRequest
    | DrainRequest
    | HoldRequest
    | ReleaseRequest
    | PriorityRequest
    | LossRequest
    | DeleteRequest
    | UndeleteRequest
    | PruneRequest
    | RegradeRequest
    | OutlineRequest
    | SameRequest
    | ExchangeRequest
    | SamplesRequest
    | ScoresRequest
    | ModelsRequest
    | BenchmarksRequest
    | SuitesRequest
    | HarnessesRequest
    | HarnessTasksRequest
    | EndpointsRequest
    | EndpointsRetry
    | JudgeRequest
    | JudgeRetry
    | ReviewMark
    | ReviewRequest
    | SearchRequest
    | SearchSelect
    | CompareRequest
    | ImportRequest
    | ZombiesRequest
    | ReapRequest
    | AuditRequest
    | NotifyRequest
    | NotifyTest
    | ReloadRequest
    | ConfigRequest
    | MetricsRequest
    | JobLogRequest
    | ReproRequest
    | RecipeCheck
    | RecipeRun
    | RecipesRequest
    | RecipeRequest
    | RecipeChange
    | RecipeRowsRequest
    | WatchAdd
    | BaselinesRequest
    | BaselineAdd
    | BaselinePin
    | WatchesRequest
    | WatchRequest
    | WatchChange
    | FeedbackRequest
    | FeedbackReveal
    | VerdictsRequest
    | RewriteRequest
    | LabelRequest
    | OrderRequest
    | OrderUpload
    | LabellingRequest
)
StreamRequest = LogsRequest | EventsRequest
AnyReply = (
    InfoReply
    | GpusReply
    | GpuHistoryReply
    | GpusChangedReply
    | ErrorReply
    | StatusReply
    | PlanReply
    | DispatchReply
    | JobsReply
    | JobReply
    | NowReply
    | SoFarReply
    | ChangedReply
    | LossReply
    | PausesReply
    | OutlineReply
    | SameReply
    | ExchangeReply
    | SamplesReply
    | ScoresReply
    | ModelsReply
    | BenchmarksReply
    | SuitesReply
    | HarnessesReply
    | HarnessTasksReply
    | BaselinesReply
    | BaselineReply
    | EndpointsReply
    | JudgeReply
    | ReviewReply
    | SearchReply
    | PromotionReply
    | CompareReply
    | ImportReply
    | ZombiesReply
    | ReapReply
    | AuditReply
    | NotifyReply
    | NotifyTestReply
    | ReloadReply
    | ConfigReply
    | MetricsReply
    | JobLogReply
    | ReproReply
    | RecipePlanReply
    | RecipeReply
    | RecipesReply
    | RecipeRowsReply
    | WatchesReply
    | WatchReply
    | FeedbackReply
    | VerdictsReply
    | RewriteReply
    | LabelReply
    | OrderReply
    | LabellingReply
)

ROUTES: Final[dict[type[Struct], tuple[str, str]]] = {
    InfoRequest: ("GET", "/v1/info"),
    StatusRequest: ("GET", "/v1/status"),
    PlanRequest: ("POST", "/v1/plan"),
    DispatchRequest: ("POST", "/v1/dispatch"),
    JobsRequest: ("GET", "/v1/jobs"),
    JobRequest: ("GET", "/v1/jobs/{job}"),
    NowRequest: ("GET", "/v1/jobs/{job}/now"),
    SoFarRequest: ("GET", "/v1/jobs/{job}/so-far"),
    StopRequest: ("POST", "/v1/stop"),
    ResumeRequest: ("POST", "/v1/resume"),
    PauseRequest: ("POST", "/v1/pause"),
    DrainRequest: ("POST", "/v1/drain"),
    HoldRequest: ("POST", "/v1/hold"),
    ReleaseRequest: ("POST", "/v1/release"),
    PriorityRequest: ("POST", "/v1/priority"),
    LossRequest: ("POST", "/v1/loss"),
    DeleteRequest: ("POST", "/v1/delete"),
    UndeleteRequest: ("POST", "/v1/undelete"),
    PruneRequest: ("POST", "/v1/prune"),
    RegradeRequest: ("POST", "/v1/regrade"),
    OutlineRequest: ("GET", "/v1/jobs/{job}/outline"),
    SameRequest: ("GET", "/v1/jobs/{job}/same"),
    ExchangeRequest: ("GET", "/v1/jobs/{job}/exchange"),
    SamplesRequest: ("GET", "/v1/jobs/{job}/samples"),
    ScoresRequest: ("GET", "/v1/scores"),
    ModelsRequest: ("GET", "/v1/models"),
    BenchmarksRequest: ("GET", "/v1/benchmarks"),
    SuitesRequest: ("GET", "/v1/suites"),
    HarnessesRequest: ("GET", "/v1/harnesses"),
    HarnessTasksRequest: ("GET", "/v1/harness-tasks"),
    CompareRequest: ("POST", "/v1/compare"),
    ImportRequest: ("POST", "/v1/import"),
    ZombiesRequest: ("GET", "/v1/zombies"),
    ReapRequest: ("POST", "/v1/reap"),
    AuditRequest: ("GET", "/v1/audit"),
    NotifyRequest: ("GET", "/v1/notify"),
    NotifyTest: ("POST", "/v1/notify/test"),
    ReloadRequest: ("POST", "/v1/reload"),
    ConfigRequest: ("GET", "/v1/config"),
    MetricsRequest: ("GET", "/v1/metrics"),
    JobLogRequest: ("GET", "/v1/job-log"),
    ReproRequest: ("GET", "/v1/jobs/{job}/repro"),
    RecipeCheck: ("POST", "/v1/recipes/check"),
    RecipeRun: ("POST", "/v1/recipes"),
    RecipesRequest: ("GET", "/v1/recipes"),
    RecipeRequest: ("GET", "/v1/recipes/{recipe}"),
    RecipeChange: ("POST", "/v1/recipes/change"),
    RecipeRowsRequest: ("GET", "/v1/recipes/{recipe}/rows"),
    WatchAdd: ("POST", "/v1/watches"),
    BaselinesRequest: ("GET", "/v1/baselines"),
    BaselineAdd: ("POST", "/v1/baselines"),
    BaselinePin: ("POST", "/v1/baselines/pin"),
    WatchesRequest: ("GET", "/v1/watches"),
    WatchRequest: ("GET", "/v1/watches/{watch}"),
    WatchChange: ("POST", "/v1/watches/change"),
    FeedbackRequest: ("GET", "/v1/watches/{watch}/feedback"),
    FeedbackReveal: ("POST", "/v1/watches/reveal"),
    VerdictsRequest: ("POST", "/v1/verdicts"),
    RewriteRequest: ("POST", "/v1/rewrite"),
    LabelRequest: ("POST", "/v1/labels"),
    OrderRequest: ("POST", "/v1/orders/of-jobs"),
    OrderUpload: ("POST", "/v1/orders"),
    LabellingRequest: ("POST", "/v1/labellings"),
    EndpointsRequest: ("GET", "/v1/endpoints"),
    EndpointsRetry: ("POST", "/v1/endpoints/retry"),
    JudgeRequest: ("GET", "/v1/judge"),
    JudgeRetry: ("POST", "/v1/judge/retry"),
    ReviewRequest: ("GET", "/v1/review"),
    ReviewMark: ("POST", "/v1/review"),
    SearchRequest: ("GET", "/v1/search"),
    SearchSelect: ("POST", "/v1/search/select"),
    GpusRequest: ("GET", "/v1/gpus"),
    GpuHistoryRequest: ("GET", "/v1/gpus/history"),
    GpuChange: ("POST", "/v1/gpus"),
    GpuProbe: ("POST", "/v1/gpus/probe"),
    LogsRequest: ("GET", "/v1/logs/{target}"),
    EventsRequest: ("GET", "/v1/events"),
}
"""Where each request goes: fields named in braces are path segments, the rest is the query (GET) or the body (POST)."""

reply_decoder: Final = msgspec.json.Decoder(AnyReply)
