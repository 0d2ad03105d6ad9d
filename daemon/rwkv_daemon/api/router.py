"""What the daemon answers: one function a request. Refusals are replies, each with a stable code and a remedy."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar, assert_never

import msgspec

from rwkv_daemon.api import metrics, state_views
from rwkv_daemon.api.requests import (
    bulk_changes,
    deletion,
    job_control,
    job_history,
    judge_review,
    live_sample,
    reload,
    repro,
    samples,
    show_config,
)
from rwkv_daemon.api.requests.job_control import find_job, once
from rwkv_daemon.catalogue import contents, second_names
from rwkv_daemon.catalogue.offered import Catalogue
from rwkv_daemon.changes import audit
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare import previous_run
from rwkv_daemon.compare import scores as comparing
from rwkv_daemon.engines import engine_views
from rwkv_daemon.gpus import requests as gpu_answers
from rwkv_daemon.gpus.zombies import requests as zombies
from rwkv_daemon.import_rwkv_skills.run import import_results
from rwkv_daemon.jobs import regrade as regrading
from rwkv_daemon.node import Node
from rwkv_daemon.notify import answers as notices
from rwkv_daemon.planning import forecast_facts, judge_cost, planner
from rwkv_daemon.rules.checkpoint_order import with_lineage
from rwkv_daemon.rules.forecast import Forecast
from rwkv_daemon.rules.plan import NoModelError, Plan, SelectionError
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting import Waiting
from rwkv_daemon.store import StoreError, Transaction
from rwkv_daemon.store.clock import now
from rwkv_daemon.store.queries.comparing import first_scores, same_work_of
from rwkv_daemon.store.queries.jobs import ACTIVE, finished_jobs, jobs_in, newest_jobs, remember_reply
from rwkv_daemon.store.queries.samples import scores
from rwkvctl import __version__
from rwkvctl.protocol import messages as m
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.states import JobState
from rwkvctl.settings import config, temporary_folder

R = TypeVar("R")
NAMES_A_MODEL: Final = (m.StopRequest, m.PauseRequest, m.ScoresRequest, m.SearchSelect, m.JobLogRequest)
"""Requests with a model, which may be named as lists show it."""


async def answer(node: Node, request: m.Request) -> m.AnyReply:
    """The reply to a request. Raises RefusedError for the server to send as an ErrorReply."""
    if isinstance(request, m.StatusRequest):
        return await node.answers.same_status.of(request, status(node, request))
    try:
        return await answer_anew(node, request)
    finally:
        node.answers.same_status.forget()


async def answer_anew(node: Node, request: m.Request) -> m.AnyReply:  # noqa: C901, PLR0912, PLR0915 - one case a request
    """The same of a request whose reply is made for whoever asks."""
    if isinstance(request, NAMES_A_MODEL) and request.model:
        whole = await second_names.whole_name(node.records, request.model)
        request = msgspec.structs.replace(request, model=whole)
    match request:
        case m.InfoRequest():
            return await info(node.records)
        case m.StatusRequest():
            return await status(node, request)
        case m.PlanRequest():
            return await preview(node, request)
        case m.DispatchRequest():
            return await dispatch(node, request)
        case m.JobsRequest():
            return await jobs(node.records, node.waiting, node.running, request)
        case m.JobRequest():
            job = await find_job(node.records, request.job)
            item = await state_views.job_view(node.records, node.waiting, node.running, job, with_score=True)
            return m.JobReply(item=item, configuration=msgspec.json.decode(job.configuration or "{}"))
        case m.NowRequest():
            return await live_sample.now(node.running, node.engines, await find_job(node.records, request.job), request)
        case m.SoFarRequest():
            return await previous_run.so_far(node.records, node.comparisons, await find_job(node.records, request.job))
        case m.StopRequest():
            return await once(
                node.records, node.answers, request.request_id, bulk_changes.stop(node, request), m.ChangedReply
            )
        case m.ResumeRequest():
            return await once(
                node.records, node.answers, request.request_id, bulk_changes.resume(node, request), m.ChangedReply
            )
        case m.PauseRequest():
            return await once(
                node.records, node.answers, request.request_id, job_control.pause(node, request), m.PausesReply
            )
        case m.DrainRequest():
            return await job_control.drain(node, request)
        case m.HoldRequest():
            return await job_control.hold(node, request)
        case m.ReleaseRequest():
            return await job_control.release(node, request)
        case m.PriorityRequest():
            return await job_control.priority(node, request)
        case m.LossRequest():
            return await deletion.loss(node.records, node.running, request)
        case m.DeleteRequest():
            return await once(
                node.records, node.answers, request.request_id, bulk_changes.delete(node, request), m.ChangedReply
            )
        case m.UndeleteRequest():
            return await once(
                node.records, node.answers, request.request_id, deletion.undelete(node.records, request), m.ChangedReply
            )
        case m.PruneRequest():
            return await once(
                node.records,
                node.answers,
                request.request_id,
                deletion.prune(node.records, node.service, request),
                m.ChangedReply,
            )
        case m.RegradeRequest():
            return await once(
                node.records,
                node.answers,
                request.request_id,
                regrade(node.records, node.running, node.catalogue, request),
                m.ChangedReply,
            )
        case m.JudgeRequest():
            return judge_review.services_of(node.judges)
        case m.JudgeRetry():
            return judge_review.retry_judges(node.judges)
        case m.ReviewRequest():
            return await judge_review.review(
                node.records, request, await find_job(node.records, request.job) if request.job else None
            )
        case m.ReviewMark():
            return await judge_review.mark(node.records, request)
        case m.SearchRequest():
            return await judge_review.search(node.records, await find_job(node.records, request.job))
        case m.SearchSelect():
            return await judge_review.select(node, request)
        case m.SamplesRequest():
            return await samples.samples(node.records, request)
        case m.OutlineRequest():
            return await samples.outline(node.records, node.catalogue, node.answers, request)
        case m.SameRequest():
            return await samples.same_elsewhere(node.records, request)
        case m.ExchangeRequest():
            return await samples.exchange(node.records, node.catalogue, request)
        case m.ScoresRequest():
            return await list_scores(node.records, request)
        case m.ModelsRequest():
            on_disk = contents.checkpoints(node.records.config.weights_dir)
            found = await contents.model_facts(node.records.store, on_disk, node.catalogue.settling)
            numerics = node.engines.numerics("", node.records.config)
            models = [contents.model_view(*one, numerics) for one in found]
            scored = await first_scores(node.records.store) if request.scored else {}
            return m.ModelsReply(items=tuple(with_lineage(models, scored) if request.scored else models))
        case m.BenchmarksRequest():
            every = node.catalogue.benchmarks.all().values()
            place, judge = node.records.config.data_dir, node.catalogue.benchmarks.judge
            return m.BenchmarksReply(items=tuple(contents.benchmark_view(b, place, judge) for b in every))
        case m.CompareRequest():
            return await comparing.answer(node.records, node.catalogue, node.comparisons, request)
        case m.ImportRequest():
            return await import_results(node.records, node.waiting, node.catalogue, request)
        case m.NotifyRequest():
            return await notices.targets(node.records, node.notifications)
        case m.NotifyTest():
            return await notices.test(node.records, node.notifications, request)
        case m.ReloadRequest():
            return await reload.reload(node)
        case m.ConfigRequest():
            return show_config.settings(node.records)
        case m.MetricsRequest():
            return await metrics.figures(node)
        case m.JobLogRequest():
            return await job_history.page(node.records, request)
        case m.ReproRequest():
            return await repro.repro(node, await find_job(node.records, request.job))
        case m.ZombiesRequest():
            return await zombies.zombies(node.work, node.gpus, request)
        case m.ReapRequest():
            return await zombies.reap(node.work, node.gpus, request)
        case m.AuditRequest():
            return await audit.trail(node.records.store, request)
        case m.GpusRequest():
            return gpu_answers.gpus(node.engines, node.gpus)
        case m.GpuHistoryRequest():
            return await gpu_answers.past(node.records, node.gpus, request)
        case m.GpuChange():
            return await gpu_answers.change(node.records, node.engines, node.gpus, request)
        case m.GpuProbe():
            return await gpu_answers.probe(node.records, node.engines, node.gpus, request)
        case _:
            assert_never(request)


async def info(records: Records) -> m.InfoReply:
    return m.InfoReply(
        version=__version__,
        api_min=m.PROTOCOL,
        api_max=m.PROTOCOL,
        pid=os.getpid(),
        home=str(records.config.home),
        started=records.started,
        temporary_folder=str(await asyncio.to_thread(temporary_folder.writable, config.temporary_folders()) or ""),
    )


async def status(node: Node, request: m.StatusRequest) -> m.StatusReply:
    """The Overview."""
    session, limit, last_event = request.session, bounded(request.limit), node.records.bus.last
    memory = of_memory(node)
    running = await jobs_in(node.records.store, ACTIVE, session=session)
    waiting = await jobs_in(node.records.store, ("queued", "held", "paused"), session=session, limit=limit)
    recent = await finished_jobs(node.records.store, session=session, limit=limit)
    return m.StatusReply(
        counts=await node.waiting.tally.of(node.records.store, session),
        running=await state_views.job_views(node.records, node.waiting, node.running, running),
        waiting=await state_views.job_views(node.records, node.waiting, node.running, waiting),
        recent=await state_views.job_views(node.records, node.waiting, node.running, recent, with_score=True),
        last_event=last_event,
        eta_s=node.waiting.forecast.ends_s,
        not_estimated=node.waiting.forecast.unknown,
        **memory,
    )


def of_memory(node: Node) -> dict[str, Any]:
    """What a status says that needs no store."""
    notes = list(node.records.config.warnings) + node.records.notes + zombies.notes(node.gpus)
    if killed := node.engines.kills.sentence(time.monotonic()):
        notes.append(killed)
    if changed := node.catalogue.benchmarks.changed_since(node.records.config):
        notes.append(changed)
    if node.service.reload_problem:
        notes.append(f"the last reload was refused: {node.service.reload_problem}")
    if node.records.trouble:
        notes.append(node.records.trouble)
    if node.gpus.sight.history_trouble:
        notes.append(f"the history of the GPUs is not recorded: {node.gpus.sight.history_trouble}")
    notes += node.waiting.pauses.sentences()
    return {
        "version": __version__,
        "uptime_s": round(time.monotonic() - node.records.started_monotonic, 1),
        "leases": engine_views.lease_views(node.engines),
        "engines": tuple(engine_views.engine_view(node.running, handle) for handle in node.engines.live.values()),
        "disk_free_bytes": node.records.disk_free_bytes(),
        "notes": tuple(notes),
        "pauses": job_control.pause_views(node.waiting),
        "home": str(node.records.config.home),
        "trouble": node.records.trouble,
    }


def remembered(node: Node, request: m.Request) -> m.AnyReply | None:
    """What the request was told before, marked as old; None if nothing is known. Of a status, what lies in memory is as
    it is now."""
    known = node.answers.known.of(request)
    if isinstance(request, m.StatusRequest):
        nothing = m.StatusReply(counts={}, running=(), waiting=(), **of_memory(node))
        before = known if isinstance(known, m.StatusReply) else nothing
        known = msgspec.structs.replace(before, **of_memory(node), last_event=node.records.bus.last)
    return known and msgspec.structs.replace(known, stale_since=node.records.health.answered or node.records.started)


def bounded(limit: int) -> int:
    """A page is never empty and never huge."""
    return max(1, min(limit, 1000))


async def preview(node: Node, request: m.PlanRequest) -> m.PlanReply:
    """`queue`: the plan, and nothing else."""
    started, selection = time.monotonic(), request.selection
    after = max(0, request.after)
    if request.limit > 0 and request.rows:
        made, total = await valid(planner.page(node.work, node.catalogue, selection, after, bounded(request.limit)))
        if len(made.pairs) < total:
            return one_page(node.records, node.waiting, node.engines, made, after, total, started)
    else:
        made = await planned(node, selection)
    paid = await judge_cost.of_plan(node.records, node.judges, node.catalogue, selection, made)
    reply = await plan_reply(
        node.records,
        node.catalogue,
        *await forecast_facts.with_estimates(node.work, made, selection.priority),
        paid,
        started,
    )
    return reply if request.rows else msgspec.structs.replace(reply, rows=())


def one_page(
    records: Records, waiting: Waiting, engines: Engines, made: Plan, after: int, total: int, started: float
) -> m.PlanReply:
    """Some rows of a plan that has more."""
    end = after + len(made.pairs)
    return m.PlanReply(
        hash="",
        rows=tuple(pair.row for pair in forecast_facts.estimated_pairs(records, waiting, engines, made.pairs)),
        counts={},
        computed_ms=round(1000 * (time.monotonic() - started), 1),
        models=made.models,
        benchmarks=made.benchmarks,
        total=total,
        next=end if end < total else 0,
    )


async def planned(node: Node, selection: m.Selection) -> Plan:
    return await valid(planner.plan(node.work, node.catalogue, selection))


async def valid(plan: Awaitable[R]) -> R:
    """What is planned. Raises RefusedError for a selection that cannot be meant."""
    try:
        return await plan
    except NoModelError as error:
        raise RefusedError("no-such-model", str(error), exit_code=Exit.REFUSED) from error
    except SelectionError as error:
        raise RefusedError("bad-selection", str(error), exit_code=Exit.USAGE) from error


async def plan_reply(
    records: Records, catalogue: Catalogue, made: Plan, ahead: Forecast, paid: tuple[m.PaidView, ...], started: float
) -> m.PlanReply:
    return m.PlanReply(
        hash=await asyncio.to_thread(lambda: made.hash),
        rows=tuple(pair.row for pair in made.pairs),
        counts=dict(Counter(pair.row.reason for pair in made.pairs)),
        computed_ms=round(1000 * (time.monotonic() - started), 1),
        models=made.models,
        benchmarks=made.benchmarks,
        notes=tuple(filter(None, [catalogue.benchmarks.changed_since(records.config)])),
        eta_s=ahead.ends_s,
        not_estimated=ahead.unknown,
        paid=paid,
        actions=dict(Counter(pair.row.action for pair in made.pairs)),
        total=len(made.pairs),
    )


async def dispatch(node: Node, request: m.DispatchRequest) -> m.DispatchReply:
    """Queue what the plan says. The same request id gets the same answer again, and nothing twice."""
    started = time.monotonic()
    async with node.records.owner:
        if (earlier := await job_control.answered(node.records, request.request_id, m.DispatchReply)) is not None:
            return msgspec.structs.replace(earlier, repeated=True)
        if node.records.trouble:
            raise StoreError(node.records.trouble)
        made = await planned(node, request.selection)
        if request.plan_hash and request.plan_hash != made.hash:
            raise RefusedError(
                "plan-changed", f"The plan is {made.hash} by now, not {request.plan_hash}.",
                "Look at `rwkvctl queue` again.", Exit.REFUSED,
            )  # fmt: skip
        estimated = await forecast_facts.with_estimates(node.work, made, request.selection.priority)
        paid = await judge_cost.of_plan(node.records, node.judges, node.catalogue, request.selection, made)
        plan_part = await plan_reply(node.records, node.catalogue, *estimated, paid, started)
        replies: list[m.DispatchReply] = []

        async def remember(db: Transaction, session: str, numbers: list[str]) -> None:
            replies.append(m.DispatchReply(as_of=now(), session=session, jobs=tuple(numbers), plan=plan_part))
            await remember_reply(db, request.request_id, msgspec.json.encode(replies[0]))

        await planner.dispatch(node.work, node.catalogue, request.selection, made, remember)
    node.records.wake.set()
    return replies[0]


async def jobs(records: Records, waiting: Waiting, running: RunningJobs, request: m.JobsRequest) -> m.JobsReply:
    """One page of jobs."""
    limit = bounded(request.limit)
    before = max(0, min(request.before, 2**62))
    states = tuple(filter(None, request.state.split(",")))
    found = await newest_jobs(
        records.store, states, session=request.session, words=request.words.split(), before=before, limit=limit
    )
    return m.JobsReply(
        items=await state_views.job_views(records, waiting, running, found, with_score=True),
        counts=await waiting.tally.of(records.store, request.session),
        next=found[-1].id if len(found) == limit else 0,
    )


async def regrade(
    records: Records, running: RunningJobs, catalogue: Catalogue, request: m.RegradeRequest
) -> m.ChangedReply:
    """Grade finished jobs again: named ones, or a session's."""
    names = request.jobs
    if request.session:
        done = await jobs_in(records.store, ("done",), session=request.session, limit=10**6)
        names += tuple(job.name for job in done if not second_names.is_same_work(job))
    async with records.owner:
        return m.ChangedReply(items=tuple([await regrade_one(records, running, catalogue, name) for name in names]))


async def regrade_one(records: Records, running: RunningJobs, catalogue: Catalogue, name: str) -> m.ChangedJob:
    try:
        job = await find_job(records, name)
    except RefusedError as error:
        return m.ChangedJob(job=name, state="", changed=False, error=str(error))
    try:
        job = await regrading.regrade(records, running, catalogue, job)
    except RefusedError as error:
        # What is graded already is as it was wanted: no error.
        wrong = "" if error.code == "graded" else str(error)
        return m.ChangedJob(job=job.name, state=job.state, changed=False, error=wrong)
    state: JobState = "judging" if job.state == "judging" else "grading"
    return m.ChangedJob(job=job.name, state=state, changed=True)


async def list_scores(records: Records, request: m.ScoresRequest) -> m.ScoresReply:
    """One page of scores, newest first."""
    limit = bounded(request.limit)
    names = await second_names.names_of_weights(records)
    found = await scores(
        records.store, model=request.model, weights=second_names.weights_called(request.model, names),
        benchmark=request.benchmark, session=request.session, all_versions=request.all_versions, before=request.before,
        limit=limit,
    )  # fmt: skip
    read = state_views.brief_score if request.brief else state_views.score_decoder.decode
    page = [second_names.Measured(read(one.view), one.weights_sha256) for one in found]
    items = await second_names.under_every_name(records.store, page, names, request.model, every=request.all_versions)
    if request.session and not request.before:
        items += await of_same_work(records, request, items)
    return m.ScoresReply(items=tuple(items), next=int(page[-1].score.job[1:]) if len(page) == limit else 0)


async def of_same_work(records: Records, request: m.ScoresRequest, known: Sequence[m.ScoreView]) -> list[m.ScoreView]:
    """Scores of a session's jobs whose work another job had done, of those that are asked for and not known."""
    seen = {(score.model, score.benchmark, score.kind) for score in known}
    jobs = [
        job
        for job in await same_work_of(records.store, request.session)
        if request.model in {"", job.model}
        and request.benchmark in {"", job.benchmark}
        and (job.model, job.benchmark, job.kind) not in seen
    ]
    return list((await state_views.scores_by_job(records, jobs)).values())
