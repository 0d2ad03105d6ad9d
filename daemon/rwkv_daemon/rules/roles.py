"""Who may ask for what: the least role of each request, and the refusal for others.

A process may be gone and its pid another's by the time it is read, so a pid never gives a right: it is only written
into the audit trail.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import msgspec

from rwkvctl.protocol.audit import AuditRequest
from rwkvctl.protocol.deletion import DeleteRequest, LossRequest, PruneRequest, UndeleteRequest
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.gpus import GpuChange, GpuHistoryRequest, GpuProbe, GpusRequest
from rwkvctl.protocol.labels import LabellingRequest, LabelRequest
from rwkvctl.protocol.notify import NotifyRequest, NotifyTest
from rwkvctl.protocol.operation import DrainRequest, HoldRequest, PauseRequest, PriorityRequest, ReleaseRequest
from rwkvctl.protocol.recipes import (
    RecipeChange,
    RecipeCheck,
    RecipeRequest,
    RecipeRowsRequest,
    RecipeRun,
    RecipesRequest,
    RewriteRequest,
    VerdictsRequest,
)
from rwkvctl.protocol.record import JobLogRequest, ReproRequest
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
from rwkvctl.protocol.routes import ROUTES
from rwkvctl.protocol.service import ConfigRequest, MetricsRequest, ReloadRequest
from rwkvctl.protocol.training.baselines import BaselineAdd, BaselinePin, BaselinesRequest
from rwkvctl.protocol.training.feedback import FeedbackRequest, FeedbackReveal
from rwkvctl.protocol.training.harnesses import HarnessesRequest, HarnessTasksRequest
from rwkvctl.protocol.training.orders import OrderRequest, OrderUpload
from rwkvctl.protocol.training.watches import WatchAdd, WatchChange, WatchesRequest, WatchRequest
from rwkvctl.protocol.zombies import ReapRequest, ZombiesRequest


class Role(IntEnum):
    """What a client may do; each role includes the ones before it."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Actor:
    """Who caused a change: the other end of a connection, or the daemon itself."""

    uid: int
    gid: int
    pid: int
    name: str


VIEWER, OPERATOR, ADMIN = Role

LEAST: Final[Mapping[type[msgspec.Struct], Role]] = {
    InfoRequest: VIEWER,
    StatusRequest: VIEWER,
    PlanRequest: VIEWER,
    JobsRequest: VIEWER,
    JobRequest: VIEWER,
    NowRequest: VIEWER,
    SoFarRequest: VIEWER,
    SamplesRequest: VIEWER,
    OutlineRequest: VIEWER,
    SameRequest: VIEWER,
    ExchangeRequest: VIEWER,
    ScoresRequest: VIEWER,
    ModelsRequest: VIEWER,
    BenchmarksRequest: VIEWER,
    SuitesRequest: VIEWER,
    HarnessesRequest: VIEWER,
    HarnessTasksRequest: VIEWER,
    CompareRequest: VIEWER,
    EndpointsRequest: VIEWER,
    RecipeCheck: VIEWER,
    RecipesRequest: VIEWER,
    RecipeRequest: VIEWER,
    RecipeRowsRequest: VIEWER,
    VerdictsRequest: VIEWER,
    RecipeRun: OPERATOR,
    RecipeChange: OPERATOR,
    WatchesRequest: VIEWER,
    WatchRequest: VIEWER,
    FeedbackRequest: VIEWER,
    WatchAdd: OPERATOR,
    BaselinesRequest: VIEWER,
    BaselineAdd: OPERATOR,
    BaselinePin: OPERATOR,
    WatchChange: OPERATOR,
    FeedbackReveal: OPERATOR,
    JudgeRequest: VIEWER,
    ReviewRequest: VIEWER,
    SearchRequest: VIEWER,
    LogsRequest: VIEWER,
    EventsRequest: VIEWER,
    ZombiesRequest: VIEWER,
    GpusRequest: VIEWER,
    GpuHistoryRequest: VIEWER,
    GpuChange: OPERATOR,
    GpuProbe: ADMIN,
    AuditRequest: OPERATOR,
    NotifyRequest: VIEWER,
    MetricsRequest: VIEWER,
    ConfigRequest: VIEWER,
    JobLogRequest: VIEWER,
    ReproRequest: VIEWER,
    NotifyTest: OPERATOR,
    ReloadRequest: ADMIN,
    DispatchRequest: OPERATOR,
    StopRequest: OPERATOR,
    ResumeRequest: OPERATOR,
    PauseRequest: OPERATOR,
    DrainRequest: OPERATOR,
    HoldRequest: OPERATOR,
    ReleaseRequest: OPERATOR,
    PriorityRequest: OPERATOR,
    LossRequest: VIEWER,
    DeleteRequest: OPERATOR,
    UndeleteRequest: OPERATOR,
    PruneRequest: OPERATOR,
    RegradeRequest: OPERATOR,
    RewriteRequest: OPERATOR,
    LabelRequest: OPERATOR,
    OrderRequest: VIEWER,
    OrderUpload: OPERATOR,
    LabellingRequest: OPERATOR,
    EndpointsRetry: OPERATOR,
    JudgeRetry: OPERATOR,
    ReviewMark: OPERATOR,
    SearchSelect: OPERATOR,
    ImportRequest: OPERATOR,
    ReapRequest: OPERATOR,
}
"""The least role for each request. A request that is not listed needs an admin; a test finds it."""

READS: Final = frozenset({PlanRequest, CompareRequest, LossRequest, RecipeCheck, VerdictsRequest, OrderRequest})
"""Requests that come with a body and yet change nothing."""


def least(request: type[msgspec.Struct]) -> Role:
    """Return the least role that may send requests of this type; ADMIN where none is listed."""
    return LEAST.get(request, Role.ADMIN)


def changes(request: type[msgspec.Struct]) -> bool:
    """Whether a request changes something, so that it is written to the audit trail."""
    return ROUTES[request][0] != "GET" and request not in READS


def names_files(request: msgspec.Struct) -> bool:
    """Whether it is a plan of checkpoints by path, whose reply tells about files."""
    return isinstance(request, PlanRequest) and bool(request.selection.checkpoints or request.selection.files)


def needed(request: msgspec.Struct) -> Role:
    """Return the role that this very request needs."""
    return OPERATOR if names_files(request) else least(type(request))


def refuse(request: msgspec.Struct, has: Role, actor: Actor) -> None:
    """Raise RefusedError unless the role suffices for the request."""
    needs = needed(request)
    if has >= needs:
        return
    where = f"[roles] {needs.word} in config.toml" if actor.uid >= 0 else "its tokens_file"
    verb = f"`{verb_of(type(request))}`"
    if names_files(request):
        verb = "`queue` of checkpoints by path"
    raise RefusedError(
        "role",
        f"{actor.name} is {article(has)} here, and {verb} needs {article(needs)}: nothing was changed.",
        f"Who runs the daemon can grant it: {where}.",
        Exit.REFUSED,
    )


def verb_of(request: type[msgspec.Struct]) -> str:
    """Return the verb of a request from its route, such as `judge retry` for `/v1/judge/retry`; path parameters are
    left out."""
    words = ROUTES[request][1].removeprefix("/v1/").split("/")
    return " ".join(word for word in words if not word.startswith("{"))


def article(role: Role) -> str:
    """Return the role's name with its indefinite article, such as `an operator`."""
    return f"{'a' if role is Role.VIEWER else 'an'} {role.word}"
