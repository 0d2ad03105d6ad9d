"""Answers about the daemon itself and the state of its work."""

import asyncio
import os
import time
from typing import Any

from rwkv_daemon.api import state_views
from rwkv_daemon.api.requests import (
    job_control,
)
from rwkv_daemon.changes.records import Records
from rwkv_daemon.engines import engine_views
from rwkv_daemon.gpus.zombies import zombie_requests
from rwkv_daemon.node import Node
from rwkv_daemon.rules.forecast import Forecast
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.store.queries.jobs import ACTIVE, finished_jobs, jobs_in
from rwkv_daemon.store.queries.recipes.stored_recipes import recipe_counts, working_recipes
from rwkvctl import __version__
from rwkvctl.protocol.replies import InfoReply, StatusReply
from rwkvctl.protocol.requests import StatusRequest
from rwkvctl.protocol.routes import PROTOCOL
from rwkvctl.protocol.views import MOST_AT_WORK, RecipeAtWork
from rwkvctl.settings import config, temporary_folder


async def info(records: Records) -> InfoReply:
    return InfoReply(
        version=__version__,
        api_min=PROTOCOL,
        api_max=PROTOCOL,
        pid=os.getpid(),
        home=str(records.config.home),
        started=records.started,
        temporary_folder=str(await asyncio.to_thread(temporary_folder.writable, config.temporary_folders()) or ""),
    )


async def status(node: Node, request: StatusRequest) -> StatusReply:
    """Answer `GET /v1/status`: running, waiting and recently finished jobs, counts by state, recipes at work, and
    the estimated end."""
    session, limit, last_event = request.session, page_size(request.limit), node.records.bus.last
    memory = of_memory(node)
    running = await jobs_in(node.records.store, ACTIVE, session=session)
    waiting = await jobs_in(node.records.store, ("queued", "held", "paused"), session=session, limit=limit)
    recent = await finished_jobs(node.records.store, session=session, limit=limit)
    # the forecast is updated now and then: just after the last job has ended it is out of date
    ahead = node.waiting.forecast if running or waiting or session else Forecast()
    return StatusReply(
        counts=await node.waiting.state_counts.of(node.records.store, session),
        running=await state_views.live_job_views(node.records, node.waiting, node.running, running),
        waiting=await state_views.live_job_views(node.records, node.waiting, node.running, waiting),
        recent=await state_views.live_job_views(node.records, node.waiting, node.running, recent, with_score=True),
        last_event=last_event,
        eta_s=ahead.ends_s,
        not_estimated=ahead.unknown,
        recipes=() if session else await recipes_at_work(node),
        recipe_counts={} if session else await recipe_counts(node.records.store),
        **memory,
    )


async def recipes_at_work(node: Node) -> tuple[RecipeAtWork, ...]:
    """Return recipes that are not over, paused ones first, at most `MOST_AT_WORK`."""
    found = await working_recipes(node.records.store, MOST_AT_WORK)
    return tuple(
        RecipeAtWork(
            recipe=f"r{one.id}", name=one.name, state=one.state, created=one.created,
            detail=node.recipes.said_of(one.id) if one.state == "making" else one.detail,
        )
        for one in found
    )  # fmt: skip


def of_memory(node: Node) -> dict[str, Any]:
    """Return the fields of a status that come from memory and need no store."""
    notes = list(node.records.config.warnings) + node.records.notes + zombie_requests.notes(node.gpus)
    if killed := node.engines.kills.sentence(time.monotonic()):
        notes.append(killed)
    if changed := node.catalogue.benchmarks.changed_since(node.records.config):
        notes.append(changed)
    if node.service.reload_problem:
        notes.append(f"the last reload was refused: {node.service.reload_problem}")
    if node.records.trouble:
        notes.append(node.records.trouble)
    if node.gpus.watch_state.history_trouble:
        notes.append(f"the history of the GPUs is not recorded: {node.gpus.watch_state.history_trouble}")
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
