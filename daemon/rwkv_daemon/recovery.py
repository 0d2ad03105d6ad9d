"""Resuming the work that the store describes: at the start, or as soon as a store is there that was not there at the
start."""

import asyncio
import time
from typing import Final

import msgspec

from rwkv_daemon import supervisor
from rwkv_daemon.api.requests import status
from rwkv_daemon.changes import event_bus
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import endpoint_jobs, judge_jobs
from rwkv_daemon.node import Node
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.events import newest_number
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.upkeep import unknown_runs
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.requests import StatusRequest

AGAIN_S: Final = 1.0
PICTURE_S: Final = 5.0
"""While the store is away, a status shows the jobs as of at most so many seconds before."""


async def resume_work(node: Node) -> None:
    """Adopt what an earlier daemon left running. May be repeated if the store or the disk interrupts it."""
    node.records.bus.last = await newest_number(node.records.store)
    node.notifications.replace(node.notifications.targets, since=node.records.bus.last)
    await unknown_runs.set_aside(node.records)
    await judge_jobs.open_services(node.records, node.judges, node.catalogue)
    await endpoint_jobs.open_models(node.records, node.catalogue.endpoints)
    await supervisor.adopt(node)
    node.records.up.set()


async def begin(node: Node) -> None:
    """Resume at the start as far as possible. Raises ConfigError."""
    try:
        await resume_work(node)
    except (StoreError, OSError) as error:
        log.error("the daemon starts without its store, and answers what it can: %s", node.records.trouble or error)


async def resume_when_possible(node: Node) -> None:
    """Resume what could not be resumed at the start, once it can be."""
    while not node.records.up.is_set():
        await asyncio.sleep(AGAIN_S)
        try:
            await resume_work(node)
        except (StoreError, OSError, RwkvctlError) as error:
            log.debug("the work cannot be taken up yet: %s", error)
        else:
            log.warning("the work was taken up, as the store is there")


async def tell(node: Node) -> None:
    """Report when the store goes away and when it is back; until cancelled."""
    while True:
        turned, since, before = node.records.health.turned, node.records.health.since, node.records.trouble
        await turned.wait()
        node.records.bus.publish(
            [event_bus.live_event("store", text=node.records.trouble or "the store can be used again")]
        )
        node.records.wake.set()
        if node.records.health.state == "well":
            async with node.records.change() as change:
                await change.note("daemon", text=f"the store can be used again: {before}", data={"since": since})


async def remember(node: Node) -> None:
    """Keep a recent status of the jobs; until cancelled."""
    seen = -1
    while True:
        old = time.monotonic() - node.request_state.last_replies.status_at > PICTURE_S
        if node.records.health.state == "well" and old and seen != node.records.bus.last:
            seen, request = node.records.bus.last, StatusRequest()
            reply = await status.status(node, request)
            node.request_state.last_replies.keep(request, msgspec.structs.replace(reply, as_of=now()), 0)
        await asyncio.sleep(PICTURE_S / 2)
