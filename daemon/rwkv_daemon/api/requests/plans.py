"""Answers about plans: what a selection would run, and dispatching it."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from rwkv_daemon.api.requests import (
    job_control,
)
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.node import Node
from rwkv_daemon.planning import endpoint_cost, forecast_facts, judge_cost, planner
from rwkv_daemon.rules.forecast import Forecast
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.rules.plan import NoModelError, Plan, SelectionError
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import StoreError, Transaction
from rwkv_daemon.store.queries.jobs import remember_reply
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import DispatchReply, PlanReply
from rwkvctl.protocol.requests import DispatchRequest, PlanRequest, Selection
from rwkvctl.protocol.views import PaidView

R = TypeVar("R")


async def preview(node: Node, request: PlanRequest) -> PlanReply:
    """Answer `POST /v1/plan`: what a selection would run, with estimates of time and cost; nothing is queued."""
    started, selection = time.monotonic(), request.selection
    await valid(planner.try_out_endpoints(node.work, node.catalogue, selection))
    after = max(0, request.after)
    if request.limit > 0 and request.rows:
        made, total = await valid(planner.page(node.work, node.catalogue, selection, after, page_size(request.limit)))
        if len(made.pairs) < total:
            return one_page(node.records, node.waiting, node.engines, made, after, total, started)
    else:
        made = await planned(node, selection)
    paid = await cost_of(node, selection, made)
    reply = await plan_reply(
        node.records,
        node.catalogue,
        *await forecast_facts.with_estimates(node.work, made, selection.priority),
        paid,
        started,
    )
    return reply if request.rows else msgspec.structs.replace(reply, rows=())


def one_page(
    records: Records, waiting: WaitingJobs, engines: Engines, made: Plan, after: int, total: int, started: float
) -> PlanReply:
    """Return some rows of a plan that has more, with their estimates."""
    end = after + len(made.pairs)
    return PlanReply(
        hash="",
        rows=tuple(pair.row for pair in forecast_facts.estimated_pairs(records, waiting, engines, made.pairs)),
        counts={},
        computed_ms=round(1000 * (time.monotonic() - started), 1),
        models=made.models,
        benchmarks=made.benchmarks,
        total=total,
        next=end if end < total else 0,
    )


async def planned(node: Node, selection: Selection) -> Plan:
    return await valid(planner.plan(node.work, node.catalogue, selection))


async def valid(plan: Awaitable[R]) -> R:
    """Await a plan. Raises RefusedError if the selection is invalid."""
    try:
        return await plan
    except NoModelError as error:
        raise RefusedError("no-such-model", str(error), exit_code=Exit.REFUSED) from error
    except SelectionError as error:
        raise RefusedError("bad-selection", str(error), exit_code=Exit.USAGE) from error


async def plan_reply(
    records: Records, catalogue: NodeCatalogue, made: Plan, ahead: Forecast, paid: tuple[PaidView, ...], started: float
) -> PlanReply:
    return PlanReply(
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


async def cost_of(node: Node, selection: Selection, made: Plan) -> tuple[PaidView, ...]:
    """Return what a plan would have others do for money: models behind endpoints, the judge, the checker."""
    return (
        *await endpoint_cost.of_plan(node.records, node.catalogue, made),
        *await judge_cost.of_plan(node.records, node.judges, node.catalogue, selection, made),
    )


async def dispatch(node: Node, request: DispatchRequest) -> DispatchReply:
    """Queue the jobs of a plan. The same request id gets the same reply again, and nothing is queued twice."""
    started = time.monotonic()
    await valid(planner.try_out_endpoints(node.work, node.catalogue, request.selection))
    async with node.records.owner:
        if (earlier := await job_control.answered(node.records, request.request_id, DispatchReply)) is not None:
            return msgspec.structs.replace(earlier, repeated=True)
        if node.records.trouble:
            raise StoreError(node.records.trouble)
        made = await planned(node, request.selection)
        if request.plan_hash and request.plan_hash != made.hash:
            raise RefusedError(
                "plan-changed", f"The plan has changed: it is {made.hash} now, not {request.plan_hash}.",
                "Look at `rwkvctl queue` again.", Exit.REFUSED,
            )  # fmt: skip
        estimated = await forecast_facts.with_estimates(node.work, made, request.selection.priority)
        paid = await cost_of(node, request.selection, made)
        plan_part = await plan_reply(node.records, node.catalogue, *estimated, paid, started)
        replies: list[DispatchReply] = []

        async def remember(db: Transaction, session: str, numbers: list[str]) -> None:
            replies.append(DispatchReply(as_of=now(), session=session, jobs=tuple(numbers), plan=plan_part))
            await remember_reply(db, request.request_id, msgspec.json.encode(replies[0]))

        await planner.dispatch(node.work, node.catalogue, request.selection, made, remember)
    node.records.wake.set()
    return replies[0]
