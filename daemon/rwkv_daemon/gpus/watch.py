"""The task that keeps `node.gpus` true: samplers one after the other, and what hangs is tried again now and then.

NVML calls can hang for ever inside the driver, so they are made in a process of their own. One that is silent for too
long is replaced by one that leaves out the GPU it hung on: that GPU is `unknown`, the others stay watched. Without NVML
the CPU is all there is; a driver that comes later is found.
"""

import asyncio
import itertools
import time
from typing import Final

from rwkv_daemon.clock import now
from rwkv_daemon.gpus import condition_store, history, ingest, presenter, reservation_probe
from rwkv_daemon.gpus.sampler_process import Ended, Sampler, answers, ending, snapshots, started, too_many_stuck
from rwkv_daemon.node import Node, log
from rwkv_daemon.rules.gpu_facts import Snapshot
from rwkv_daemon.store import StoreError

RESTART_S: Final = 5.0
LONGEST_RESTART_S: Final = 60.0
RETRY_S: Final = 30.0
"""Between two tries of what hangs."""
EVENTS_RETRY: Final = 20
"""Rounds of that between two tries of XID events: no process can ask for them alone, so all GPUs wait for the answer.
"""


async def watch(node: Node) -> None:
    """Watch until cancelled."""
    while not await restored(node):
        await asyncio.sleep(RESTART_S)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_sampling(node), name="gpu sampler")
            tasks.create_task(retry_left_out(node), name="gpus that hang")
            tasks.create_task(reservation_probe.probe_forever(node), name="gpu probes")
    finally:
        await history.close(node)


async def restored(node: Node) -> bool:
    """Whether what is held against the GPUs could be read: before that is known, none may be given away."""
    try:
        await condition_store.restore(node)
    except StoreError as error:
        log.warning("what is known of the GPUs cannot be read (%s): none is used until it can", error)
        return False
    return True


async def keep_sampling(node: Node) -> None:
    """One sampler after the other. After one that hung on a GPU the next starts at once, without that GPU."""
    wait = RESTART_S
    while True:
        began = time.monotonic()
        if too_many_stuck(node.sight):
            ended = Ended("not-started", detail="too many samplers are stuck in the driver: reboot the node")
        else:
            ended = await sample(node)
        wait = RESTART_S if time.monotonic() - began > LONGEST_RESTART_S else min(2 * wait, LONGEST_RESTART_S)
        if await what_follows(node, ended):
            await asyncio.sleep(wait)


async def sample(node: Node) -> Ended:
    """Run one sampler until it ends, hangs, or is to be replaced."""
    sight = node.sight
    skip = ["--skip", ",".join(sight.left_out)] if sight.left_out else []
    left_out = set(sight.left_out)
    try:
        async with started(sight, node.config.settings.sampler_deadline_s, *skip) as sampler:
            return await follow(node, sampler, left_out)
    except OSError as error:
        return Ended("not-started", detail=str(error))


async def follow(node: Node, sampler: Sampler, left_out: set[str]) -> Ended:
    """Take in what one sampler sees. It is replaced when what it leaves out is not what is to be left out."""
    try:
        async for snapshot in snapshots(sampler):
            await take_in(node, snapshot)
            if set(node.sight.left_out) != left_out:
                return Ended("ended", detail="replaced")
        return await ending(sampler)
    except TimeoutError:
        return Ended("hung", sampler.asked)
    except ValueError as error:  # not JSON, or not of this version's shape
        return Ended("nonsense", detail=str(error))


async def take_in(node: Node, snapshot: Snapshot) -> None:
    """One look. A mistake of ours in it must not end the watch, and with it the daemon."""
    try:
        await ingest.take(node, snapshot)
        await history.keep(node)
    except Exception:  # noqa: BLE001 - logged; the next look may be better
        log.exception("a look at the GPUs could not be taken in; it goes on with the next")


async def what_follows(node: Node, ended: Ended) -> bool:
    """Act on a sampler's end; returns whether to wait before the next."""
    deadline = node.config.settings.sampler_deadline_s
    if ended.detail == "replaced":
        return False
    if ended.how == "hung" and ended.asked != "driver":
        what = "XID events" if ended.asked == "events" else f"GPU {ended.asked}"
        log.error("the driver did not answer about %s for %g s; it is left out and tried again later", what, deadline)
        node.sight.left_out[ended.asked] = now()
        return False
    if ended.how == "no-nvml" and not node.sight.known:
        node.sight.trouble = ""
        presenter.publish(node)
        return True
    why = {
        "no-nvml": "the NVIDIA driver is not loaded",
        "ended": f"the NVIDIA driver stopped answering ({ended.detail})",
        "hung": f"the NVIDIA driver hangs (no answer for {deadline:g} s)",
        "nonsense": f"the GPU sampler said something that cannot be read ({ended.detail})",
        "not-started": f"the GPU sampler cannot run ({ended.detail})",
    }[ended.how]
    if node.sight.trouble != why:
        log.warning("%s: GPUs are unknown until it answers again; running work goes on", why)
    await ingest.lose(node, why)
    return True


async def retry_left_out(node: Node) -> None:
    """Ask again, by a process of its own, for what hung; what answers is watched again."""
    for tries in itertools.count(1):
        await asyncio.sleep(RETRY_S)
        for what in list(node.sight.left_out):
            if too_many_stuck(node.sight) or (what == "events" and tries % EVENTS_RETRY):
                continue
            if what == "events" or await answers(node.sight, what, node.config.settings.sampler_deadline_s):
                log.info("the driver answers about %s again", what if what == "events" else f"GPU {what}")
                node.sight.left_out.pop(what, None)
