"""From a store to a node that works: at the start, or as soon as a store is there that was not there at the start."""

import asyncio
import time
from typing import Final

import msgspec

from rwkv_daemon import supervisor
from rwkv_daemon.api import router
from rwkv_daemon.changes import events
from rwkv_daemon.clock import now
from rwkv_daemon.host import unknown_runs
from rwkv_daemon.jobs import judge_jobs
from rwkv_daemon.node import Node, log
from rwkv_daemon.store import StoreError
from rwkvctl.protocol import messages as m
from rwkvctl.protocol.errors import RwkvctlError

AGAIN_S: Final = 1.0
PICTURE_S: Final = 5.0
"""How old the picture of the jobs may be that a status shows while the store is away, where something happens."""


async def take_up(node: Node) -> None:
    """Adopt what an earlier daemon left running. May be begun again where the store or the disk cuts it off."""
    node.bus.last = await events.newest_number(node.store)
    node.notify.replace(node.notify.targets, since=node.bus.last)
    await unknown_runs.set_aside(node)
    await judge_jobs.open_services(node)
    await supervisor.adopt(node)
    node.up.set()


async def begin(node: Node) -> None:
    """Take up at the start what can be. Raises ConfigError."""
    try:
        await take_up(node)
    except (StoreError, OSError) as error:
        log.error("the daemon starts without its store, and answers what it can: %s", node.trouble or error)


async def rise(node: Node) -> None:
    """Take up what could not be at the start, once it can."""
    while not node.up.is_set():
        await asyncio.sleep(AGAIN_S)
        try:
            await take_up(node)
        except (StoreError, OSError, RwkvctlError) as error:
            log.debug("the work cannot be taken up yet: %s", error)
        else:
            log.warning("the work was taken up, as the store is there")


async def tell(node: Node) -> None:
    """Let everybody know when the store goes away and when it is back; until cancelled."""
    while True:
        turned, since, before = node.health.turned, node.health.since, node.trouble
        await turned.wait()
        node.bus.publish([events.passing("store", text=node.trouble or "the store can be used again")])
        node.wake.set()
        if node.health.state == "well":
            async with node.change() as change:
                await change.note("daemon", text=f"the store can be used again: {before}", data={"since": since})


async def remember(node: Node) -> None:
    """Keep a picture of the jobs that is not old; until cancelled."""
    seen = -1
    while True:
        old = time.monotonic() - node.known.status_at > PICTURE_S
        if node.health.state == "well" and old and seen != node.bus.last:
            seen, request = node.bus.last, m.StatusRequest()
            reply = await router.status(node, request)
            node.known.keep(request, msgspec.structs.replace(reply, as_of=now()), 0)
        await asyncio.sleep(PICTURE_S / 2)
