"""Which function answers which request. A refusal is a reply with a stable code and a hint."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

import msgspec

from rwkv_daemon.api import metrics
from rwkv_daemon.api.requests import (
    bulk_changes,
    catalogue,
    deletion,
    endpoints,
    job_control,
    job_history,
    jobs,
    judge_review,
    labels,
    live_sample,
    orders,
    plans,
    recipe_changes,
    recipes,
    reload,
    repro,
    rewriting,
    samples,
    scores,
    show_config,
    status,
)
from rwkv_daemon.api.requests.training import baselines, feedback, harnesses, watches
from rwkv_daemon.catalogue import second_names
from rwkv_daemon.changes import audit
from rwkv_daemon.compare import previous_run, score_comparison
from rwkv_daemon.gpus import gpu_requests
from rwkv_daemon.gpus.zombies import zombie_requests
from rwkv_daemon.import_rwkv_skills.import_run import import_results
from rwkv_daemon.node import Node
from rwkv_daemon.notify import notify_requests
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.audit import AuditRequest
from rwkvctl.protocol.deletion import DeleteRequest, LossRequest, PruneRequest, UndeleteRequest
from rwkvctl.protocol.gpus import GpuChange, GpuHistoryRequest, GpuProbe, GpusRequest
from rwkvctl.protocol.labels import LabellingReply, LabellingRequest, LabelRequest
from rwkvctl.protocol.notify import NotifyRequest, NotifyTest
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
    RecipeReply,
    RecipeRequest,
    RecipeRowsRequest,
    RecipeRun,
    RecipesRequest,
    RewriteReply,
    RewriteRequest,
    VerdictsRequest,
)
from rwkvctl.protocol.record import JobLogRequest, ReproRequest
from rwkvctl.protocol.replies import ChangedReply, StatusReply
from rwkvctl.protocol.requests import (
    BenchmarksRequest,
    CompareRequest,
    DispatchRequest,
    EndpointsRequest,
    EndpointsRetry,
    ExchangeRequest,
    ImportRequest,
    InfoRequest,
    JobRequest,
    JobsRequest,
    JudgeRequest,
    JudgeRetry,
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
from rwkvctl.protocol.routes import AnyReply, AnyRequest
from rwkvctl.protocol.service import ConfigRequest, MetricsRequest, ReloadRequest
from rwkvctl.protocol.training.baselines import (
    BaselineAdd,
    BaselinePin,
    BaselineReply,
    BaselinesReply,
    BaselinesRequest,
)
from rwkvctl.protocol.training.feedback import FeedbackRequest, FeedbackReveal
from rwkvctl.protocol.training.harnesses import HarnessesRequest, HarnessTasksRequest
from rwkvctl.protocol.training.orders import OrderRequest, OrderUpload
from rwkvctl.protocol.training.watches import WatchAdd, WatchChange, WatchesRequest, WatchReply, WatchRequest
from rwkvctl.protocol.zombies import ReapRequest, ZombiesRequest

R = TypeVar(
    "R", ChangedReply, LabellingReply, PausesReply, RecipeReply, RewriteReply, WatchReply, BaselineReply, BaselinesReply
)
Q = TypeVar("Q", bound=AnyRequest)
J = TypeVar("J", JobRequest, NowRequest, SoFarRequest, SearchRequest, ReproRequest)
RequestHandler = Callable[[Node, Any], AnyReply | Awaitable[AnyReply]]
Entry = tuple[type[Any], RequestHandler]


class Repeatable(Protocol):
    """A request that changes something and may be repeated with the same id."""

    @property
    def request_id(self) -> str: ...


C = TypeVar("C", bound=Repeatable)


def on(kind: type[Q], act: Callable[[Node, Q], AnyReply | Awaitable[AnyReply]]) -> Entry:
    """Return the routing entry of a request type that `act` answers."""
    return kind, act


def once_on(kind: type[C], act: Callable[[Node, C], Coroutine[None, None, R]], reply: type[R]) -> Entry:
    """Return the entry of a change that is carried out once, however often it is sent with the same request id."""
    return kind, lambda node, request: job_control.once(
        node.records, node.request_state, request.request_id, act(node, request), reply
    )


def on_job(kind: type[J], act: Callable[[Node, JobRow, J], Awaitable[AnyReply]]) -> Entry:
    """Return the entry of a request about one job; `act` receives the job's row."""

    async def answer_of(node: Node, request: J) -> AnyReply:
        return await act(node, await job_control.find_job(node.records, request.job), request)

    return kind, answer_of


ANSWERS: Final[dict[type[Any], RequestHandler]] = dict((
    on(InfoRequest, lambda node, _: status.info(node.records)),
    on(StatusRequest, status.status),
    on(PlanRequest, plans.preview),
    on(DispatchRequest, plans.dispatch),
    on(JobsRequest, lambda node, asked: jobs.jobs(node.records, node.waiting, node.running, asked)),
    on_job(JobRequest, lambda node, job, _: jobs.one_job(node.records, node.waiting, node.running, job)),
    on_job(NowRequest, lambda node, job, asked: live_sample.now(node.running, node.engines, job, asked)),
    on_job(SoFarRequest, lambda node, job, _: previous_run.against_previous_run(node.records, node.comparisons, job)),
    once_on(StopRequest, bulk_changes.stop, ChangedReply),
    once_on(ResumeRequest, bulk_changes.resume, ChangedReply),
    once_on(PauseRequest, job_control.pause, PausesReply),
    on(DrainRequest, job_control.drain),
    on(HoldRequest, job_control.hold),
    on(ReleaseRequest, job_control.release),
    on(PriorityRequest, job_control.priority),
    on(LossRequest, lambda node, asked: deletion.loss(node.records, node.running, asked)),
    once_on(DeleteRequest, bulk_changes.delete, ChangedReply),
    once_on(UndeleteRequest, lambda node, asked: deletion.undelete(node.records, asked), ChangedReply),
    once_on(PruneRequest, lambda node, asked: deletion.prune(node.records, node.service, asked), ChangedReply),
    once_on(
        RegradeRequest, lambda node, asked: jobs.regrade(node.records, node.running, node.catalogue, asked),
        ChangedReply,
    ),
    on(EndpointsRequest, lambda node, _: endpoints.state(node.catalogue.endpoints)),
    on(EndpointsRetry, lambda node, _: endpoints.retry(node.catalogue.endpoints)),
    on(JudgeRequest, lambda node, _: judge_review.services_of(node.judges)),
    on(JudgeRetry, lambda node, _: judge_review.retry_judges(node.judges)),
    on(ReviewRequest, lambda node, asked: judge_review.review(node.records, asked)),
    on(ReviewMark, lambda node, asked: judge_review.mark(node.records, asked)),
    on_job(SearchRequest, lambda node, job, _: judge_review.search(node.records, job)),
    on(SearchSelect, judge_review.select),
    on(RecipeCheck, recipes.check),
    once_on(RecipeRun, recipes.run, RecipeReply),
    on(RecipesRequest, recipes.list_recipes),
    on(RecipeRequest, recipes.one_recipe),
    once_on(RecipeChange, recipe_changes.change, RecipeReply),
    on(RecipeRowsRequest, lambda node, asked: recipes.rows(node.records, asked)),
    once_on(WatchAdd, watches.add, WatchReply),
    on(BaselinesRequest, baselines.list_baselines),
    once_on(BaselineAdd, baselines.add, BaselineReply),
    once_on(BaselinePin, baselines.pin, BaselinesReply),
    on(WatchesRequest, watches.list_watches),
    on(WatchRequest, watches.one_watch),
    once_on(WatchChange, watches.change, WatchReply),
    on(FeedbackRequest, feedback.show),
    on(FeedbackReveal, feedback.reveal),
    on(OrderRequest, orders.of_jobs),
    on(OrderUpload, orders.upload),
    once_on(RewriteRequest, rewriting.rewrite, RewriteReply),
    on(LabelRequest, labels.label),
    once_on(LabellingRequest, labels.label_by_writer, LabellingReply),
    on(VerdictsRequest, lambda node, asked: recipes.verdicts(node.records, asked)),
    on(SamplesRequest, lambda node, asked: samples.samples(node.records, node.catalogue, node.request_state, asked)),
    on(OutlineRequest, lambda node, asked: samples.outline(node.records, node.catalogue, node.request_state, asked)),
    on(SameRequest, lambda node, asked: samples.same_elsewhere(node.records, asked)),
    on(ExchangeRequest, lambda node, asked: samples.exchange(node.records, node.catalogue, asked)),
    on(ScoresRequest, lambda node, asked: scores.list_scores(node.records, asked)),
    on(ModelsRequest, lambda node, asked: catalogue.models(node.records, node.engines, node.catalogue, asked)),
    on(BenchmarksRequest, lambda node, _: catalogue.benchmarks(node.records, node.catalogue)),
    on(HarnessesRequest, lambda node, _: harnesses.listed(node.records.config)),
    on(HarnessTasksRequest, lambda node, request: harnesses.tasks(node.records.config, request)),
    on(SuitesRequest, lambda node, _: catalogue.suites(node.catalogue)),
    on(
        CompareRequest,
        lambda node, asked: score_comparison.answer(node.records, node.catalogue, node.comparisons, asked),
    ),
    on(ImportRequest, lambda node, asked: import_results(node.records, node.waiting, node.catalogue, asked)),
    on(NotifyRequest, lambda node, _: notify_requests.targets(node.records, node.notifications)),
    on(NotifyTest, lambda node, asked: notify_requests.test(node.records, node.notifications, asked)),
    on(ReloadRequest, lambda node, _: reload.reload(node)),
    on(ConfigRequest, lambda node, _: show_config.settings(node.records)),
    on(MetricsRequest, lambda node, _: metrics.figures(node)),
    on(JobLogRequest, lambda node, asked: job_history.page(node.records, asked)),
    on_job(ReproRequest, lambda node, job, _: repro.repro(node, job)),
    on(ZombiesRequest, lambda node, asked: zombie_requests.zombies(node.work, node.gpus, asked)),
    on(ReapRequest, lambda node, asked: zombie_requests.reap(node.work, node.gpus, asked)),
    on(AuditRequest, lambda node, asked: audit.trail(node.records.store, asked)),
    on(GpusRequest, lambda node, _: gpu_requests.gpus(node.engines, node.gpus)),
    on(GpuHistoryRequest, lambda node, asked: gpu_requests.history_reply(node.records, node.gpus, asked)),
    on(GpuChange, lambda node, asked: gpu_requests.change(node.records, node.engines, node.gpus, asked)),
    on(GpuProbe, lambda node, asked: gpu_requests.probe(node.records, node.engines, node.gpus, asked)),
))  # fmt: skip

NAMES_A_MODEL: Final = (StopRequest, PauseRequest, ScoresRequest, SearchSelect, JobLogRequest, BaselinePin)
"""Requests that name a model, which may be shortened as lists show it."""


async def answer(node: Node, request: AnyRequest) -> AnyReply:
    """Return the reply to a request. Raises RefusedError, which the server sends as an ErrorReply."""
    if isinstance(request, StatusRequest):
        return await node.request_state.shared_status.of(request, status.status(node, request))
    try:
        return await answer_anew(node, request)
    finally:
        node.request_state.shared_status.forget()


async def answer_anew(node: Node, request: AnyRequest) -> AnyReply:
    """Return the reply to a request that is not shared with other clients."""
    if isinstance(request, NAMES_A_MODEL) and request.model:
        whole = await second_names.whole_name(node.records, request.model)
        request = msgspec.structs.replace(request, model=whole)
    reply = ANSWERS[type(request)](node, request)
    return await reply if isinstance(reply, Awaitable) else reply


def remembered(node: Node, request: AnyRequest) -> AnyReply | None:
    """Return the last reply to an equal request, marked as old, or None. In a status, what the daemon has in memory is
    current."""
    known = node.request_state.last_replies.of(request)
    if isinstance(request, StatusRequest):
        nothing = StatusReply(counts={}, running=(), waiting=(), **status.of_memory(node))
        before = known if isinstance(known, StatusReply) else nothing
        known = msgspec.structs.replace(before, **status.of_memory(node), last_event=node.records.bus.last)
    return known and msgspec.structs.replace(known, stale_since=node.records.health.answered or node.records.started)
