"""Changes of very many jobs: the order is stored first and then carried out some hundreds of jobs at a time, so that
neither the store nor the supervisor is held for long. A daemon that is restarted goes on with it.

The client gets a reply soon, which says how far the order has come, and asks again with the same request id.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rwkv_daemon.api.requests import job_control
from rwkv_daemon.api.requests.deletion import check_state, delete_one
from rwkv_daemon.api.requests.job_control import Few, JobAction
from rwkv_daemon.changes import caller
from rwkv_daemon.changes.change import Change, StateChange
from rwkv_daemon.changes.event_bus import ONE_OF_MANY
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs import stop_intents
from rwkv_daemon.node import Node
from rwkv_daemon.rules.lifecycle import Transition, after
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.store.queries.bulk import (
    BulkOrder,
    OneOfMany,
    count_of,
    delete_all,
    get_order,
    jobs_of,
    log_moves,
    open_orders,
    put_order,
    resume_all,
    stop_all,
)
from rwkv_daemon.store.queries.jobs import MovedMeanwhileError, forget_load_failures, jobs_by_id, newest_job
from rwkv_daemon.store.queries.leases import forget_fit
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl.protocol.deletion import DeleteRequest
from rwkvctl.protocol.replies import ChangedReply
from rwkvctl.protocol.requests import ResumeRequest, StopRequest
from rwkvctl.protocol.states import JobState
from rwkvctl.protocol.views import ChangedJob

AT_ONCE: Final = 1000
"""Jobs changed in one transaction."""
FEW: Final = 200
"""Up to so many jobs are changed in one transaction while the client waits, and the reply names each."""
ANSWER_S: Final = 1.0
NAMED: Final = 100
"""How many jobs that still run a reply names."""


@dataclass(frozen=True, slots=True)
class BulkAction:
    """One kind of bulk change: in which states it applies, as which transition it is recorded for jobs that are
    `simple` (hundreds in one statement), and how it changes each other job (`act`)."""

    states: tuple[JobState, ...]
    transition: Transition
    simple: Callable[[OneOfMany], bool]
    act: JobAction


def goes_on_simply(job: OneOfMany) -> bool:
    """Whether resuming a job only queues it again: it has its keys, and something is left to generate."""
    whole = job.total and (job.done >= job.total or job.stages_done >= job.stages * job.total)
    return job.state != "held" and job.reason != "held" and bool(job.generation_key) and not job.wanted and not whole


BULK_ACTIONS: Final = {
    "stop": BulkAction(
        ("held", "queued", "paused", "starting", "generating", "grading", "judging"),
        "stop", lambda job: job.state in {"held", "queued", "paused"}, job_control.stop_one,
    ),
    "resume": BulkAction(("stopped", "failed", "held", "paused"), "resume", goes_on_simply, job_control.resume_one),
    "retry": BulkAction(("failed",), "resume", goes_on_simply, job_control.retry_one),
    "delete": BulkAction(
        ("held", "queued", "paused", "stopped", "done", "failed"), "delete", lambda _job: True, delete_one
    ),
}  # fmt: skip


MOVES: Final = {"stop": stop_all, "resume": resume_all, "delete": delete_all}


def states_of(order: BulkOrder) -> tuple[str, ...]:
    """Return the states of the jobs that an order changes."""
    return (order.state,) if order.state else BULK_ACTIONS[order.act].states


async def stop(node: Node, request: StopRequest) -> ChangedReply:
    """Stop named jobs, or all that match."""
    if not (request.all or request.model or request.session):
        return await job_control.stop(node, request.jobs)
    wanted = BulkOrder("", "", "", "stop", request.session, request.model, "", 0)
    return await every(node, wanted, request.request_id, job_control.stop)


async def resume(node: Node, request: ResumeRequest) -> ChangedReply:
    """Resume named jobs, or all."""
    act: JobAction = job_control.retry_one if request.failed else job_control.resume_one

    async def few(node: Node, names: Sequence[str]) -> ChangedReply:
        return ChangedReply(items=tuple(await job_control.each(node, names, act)))

    if not (request.all or request.session):
        return await few(node, request.jobs)
    wanted = BulkOrder("", "", "", "retry" if request.failed else "resume", request.session, "", "", 0)
    return await every(node, wanted, request.request_id, few)


async def delete(node: Node, request: DeleteRequest) -> ChangedReply:
    """Delete named jobs, or all in one state."""

    async def few(node: Node, names: Sequence[str]) -> ChangedReply:
        return ChangedReply(items=tuple(await job_control.each(node, names, delete_one)))

    if not request.state:
        return await few(node, request.jobs)
    check_state(request.state)
    wanted = BulkOrder("", "", "", "delete", "", "", request.state, 0)
    return await every(node, wanted, request.request_id, few)


async def every(node: Node, wanted: BulkOrder, request_id: str, few: Few) -> ChangedReply:
    """Change all jobs that a request matches: at once if they are few, else as an order that is carried out in
    steps."""
    order = await get_order(node.records.store, request_id) if request_id else None
    if order is None:
        wanted = wanted._replace(upto=await newest_job(node.records.store))
        found = await jobs_of(node.records.store, wanted, states_of(wanted), FEW + 1)
        if len(found) <= FEW:
            return await few(node, [f"j{job.id}" for job in found if not is_held_by_somebody(wanted, job)])
        who = caller.caller().name
        order = wanted._replace(id=request_id or secrets.token_hex(16), at=now(), who=who)
        async with node.records.change() as change:
            await put_order(change.db, order)
            text = f"{who}: {order.act} every job{described(order)}"
            await change.note("jobs.order", session=order.session, text=text)
        node.request_state.orders[order.id] = order
        node.request_state.ordered.set()
    elif order.ended:
        node.request_state.orders[order.id] = order  # the last step is stored, but its follow-up may have been cut off
    deadline = time.monotonic() + ANSWER_S
    while not node.request_state.orders.get(order.id, order).ended and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return await answer(node.records, node.running, node.request_state.orders.get(order.id, order))


def is_held_by_somebody(order: BulkOrder, job: OneOfMany) -> bool:
    """Whether an operator holds the job, so that only `release` ends the hold."""
    return order.act == "resume" and (job.state, job.reason) == ("held", "held")


def described(order: BulkOrder) -> str:
    """Return what narrows the order down, such as ` of MODEL`; empty if nothing does."""
    return f" of {order.model or order.session}" if order.model or order.session else f" {order.state}".rstrip()


async def answer(records: Records, running: RunningJobs, order: BulkOrder) -> ChangedReply:
    """Return how far an order has come; once it is done, also which of its jobs still run."""
    left = 0 if order.ended else await count_of(records.store, order, states_of(order))
    still_running = await jobs_by_id(records.store, running.runners) if order.act == "stop" and order.ended else []
    items = [
        ChangedJob(job=job.name, state=job.state, changed=True, still=still)
        for job in sorted(still_running, key=lambda job: job.id)
        if job.id <= order.upto and (still := stop_intents.still_running(records, running, job))
    ]
    return ChangedReply(
        items=tuple(items[:NAMED]), changed=order.changed, unchanged=order.unchanged,
        left=max(left, 0 if order.ended else 1),
    )  # fmt: skip


async def carry_out(node: Node) -> None:
    """Carry out orders in the order in which they came, first those that an earlier daemon left unfinished; until
    cancelled."""
    while True:
        node.request_state.ordered.clear()
        for order in await open_orders(node.records.store):
            node.request_state.orders[order.id] = order
            while not order.ended:
                order = node.request_state.orders[order.id] = await step(node, order)  # noqa: PLW2901 - the same, further on
                await asyncio.sleep(0)
            node.records.wake.set()
        for name in [name for name, order in node.request_state.orders.items() if order.ended][:-AT_ONCE]:
            del node.request_state.orders[name]
        await node.request_state.ordered.wait()


async def step(node: Node, order: BulkOrder) -> BulkOrder:
    """Change the next jobs of an order; returns the order with its progress."""
    while True:
        async with node.records.owner:
            try:
                return await tried(node, order)
            except MovedMeanwhileError:
                continue  # the judge may finish a job at any moment: try again with the jobs as they are


async def tried(node: Node, order: BulkOrder) -> BulkOrder:
    """Take one step of an order. Raises MovedMeanwhileError, and stores nothing, if a job has changed its state
    meanwhile."""
    await node.waiting.state_counts.of(node.records.store)  # all jobs must be counted before some move
    action = BULK_ACTIONS[order.act]
    found = await jobs_of(node.records.store, order, states_of(order), AT_ONCE)
    simple = [job for job in found if job.id not in node.running.runners and action.simple(job)]
    alone = {job.id for job in found} - {job.id for job in simple}
    others = await jobs_by_id(node.records.store, alone)
    async with node.records.change() as change:
        await move_simple(node.running, node.engines, change, order.act, action.transition, simple)
        done = [await action.act(node, change, job) for job in others]
        changed = len(simple) + sum(item.changed for item in done)
        order = order._replace(
            reached=found[-1].id if found else order.upto, changed=order.changed + changed,
            unchanged=order.unchanged + len(found) - changed, ended="" if len(found) == AT_ONCE else now(),
        )  # fmt: skip
        await put_order(change.db, order)
        if order.ended:
            text = f"{order.act} every job{described(order)}: {order.changed} changed, {order.unchanged} did not"
            await change.note("jobs.order", session=order.session, text=text)
    node.waiting.queue.moved_many([job.id for job in simple], waits=action.transition == "resume")
    crash_point("bulk-after-step")
    if alone:
        await stop_intents.apply(node.records, node.waiting.pauses, node.running)
    return order


async def move_simple(
    running: RunningJobs, engines: Engines, change: Change, act: str, transition: Transition, jobs: Sequence[OneOfMany]
) -> None:  # fmt: skip
    """Move jobs that need no individual treatment, with one statement for each state."""
    if transition == "resume":
        await forgive(running, engines, change, jobs)
    for was in dict.fromkeys(job.state for job in jobs):
        some = [job for job in jobs if job.state == was]
        state = after(was, transition)  # type: ignore[arg-type]  # the store holds states
        if await MOVES[transition](change.db, some, was, state) != len(some):
            raise MovedMeanwhileError(f"not all of {len(some)} jobs are {was} any more")
        await log_moves(change.db, some, ONE_OF_MANY, state)
        text = f"{act}: {len(some)} jobs are {state}, {was} before"
        data = {"state": state, "was": was, "jobs": [job.id for job in some]}
        sessions = {job.session for job in some}
        only = next(iter(sessions)) if len(sessions) == 1 else ""
        await change.note("jobs.state", session=only, text=text, data=data)
        for session, count in Counter(job.session for job in some).items():
            change.steps.append(StateChange(session, was, state, some[-1].id, count))


async def forgive(running: RunningJobs, engines: Engines, change: Change, jobs: Sequence[OneOfMany]) -> None:
    """Reset the failure counts of jobs that are resumed: see `pause_resume.resume_in`."""
    for job in jobs:
        running.retry_at.pop(job.id, None)
    for kind in {EngineKind(job.weights_sha256, job.numerics) for job in jobs}:
        engines.back_off.pop(kind, None)
        await forget_load_failures(change.db, kind.weights)
        await forget_fit(change.db, kind.weights)
        engines.leasing.forget(kind.weights)
