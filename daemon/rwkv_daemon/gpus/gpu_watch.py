"""The task that keeps `known_gpus.Gpus` up to date: it runs one sampler after the other, and retries what hung.

NVML calls can hang for ever inside the driver, so they are made in a separate process. A sampler that is silent for too
long is replaced by one that skips the GPU it hung on: that GPU is `unknown`, the others are still watched. Without NVML
there is only the CPU; a driver that is loaded later is found.
"""

import asyncio
import itertools
import time
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import condition_store, history, ingest, presenter, reservation_end, reservation_probe
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.sampler_process import (
    SamplerEnd,
    SamplerProcess,
    answers,
    ending,
    snapshots,
    started,
    too_many_stuck,
)
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.gpu_facts import GpuSnapshot
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.wall_time import now

RESTART_S: Final = 5.0
LONGEST_RESTART_S: Final = 60.0
RETRY_S: Final = 30.0
"""Seconds between two tries of what hung."""
EVENTS_RETRY: Final = 20
"""Rounds of RETRY_S between two tries of XID events: they cannot be tried by a separate process, so a try delays the
samples of all GPUs."""


async def watch(work: NodeWork, gpus: Gpus) -> None:
    """Restore what the store knows of the GPUs, then keep a sampler and what looks after reservations running
    until cancelled."""
    while not await restored(work.records, gpus):
        await asyncio.sleep(RESTART_S)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_sampling(work, gpus), name="gpu sampler")
            tasks.create_task(retry_left_out(work.records, gpus), name="gpus that hang")
            tasks.create_task(reservation_probe.probe_forever(gpus), name="gpu probes")
            ends = reservation_end.end_forever(work.records, work.engines, gpus)
            tasks.create_task(ends, name="ends of reservations")
    finally:
        await history.close(work.records, gpus)


async def restored(records: Records, gpus: Gpus) -> bool:
    """Whether the stored conditions of the GPUs could be read: until they are known, no GPU may be used."""
    try:
        await condition_store.restore(records, gpus)
    except StoreError as error:
        log.warning("the stored state of the GPUs cannot be read (%s): none is used until it can", error)
        return False
    return True


async def keep_sampling(work: NodeWork, gpus: Gpus) -> None:
    """Run one sampler after the other. After one that hung on a GPU, the next starts at once and skips that GPU."""
    wait = RESTART_S
    while True:
        began = time.monotonic()
        if too_many_stuck(gpus.watch_state):
            ended = SamplerEnd("not-started", detail="too many samplers are stuck in the driver: reboot the node")
        else:
            ended = await sample(work, gpus)
        wait = RESTART_S if time.monotonic() - began > LONGEST_RESTART_S else min(2 * wait, LONGEST_RESTART_S)
        if await what_follows(work.records, work.engines, gpus, ended):
            await asyncio.sleep(wait)


async def sample(work: NodeWork, gpus: Gpus) -> SamplerEnd:
    """Run one sampler until it ends, hangs, or is to be replaced."""
    watch_state = gpus.watch_state
    skip = ["--skip", ",".join(watch_state.left_out)] if watch_state.left_out else []
    left_out = set(watch_state.left_out)
    try:
        async with started(watch_state, work.records.config.settings.sampler_deadline_s, *skip) as sampler:
            return await follow(work, gpus, sampler, left_out)
    except OSError as error:
        return SamplerEnd("not-started", detail=str(error))


async def follow(work: NodeWork, gpus: Gpus, sampler: SamplerProcess, left_out: set[str]) -> SamplerEnd:
    """Take in the snapshots of one sampler, until it has to be replaced because other GPUs are to be skipped."""
    try:
        async for snapshot in snapshots(sampler):
            await take_in(work, gpus, snapshot)
            if set(gpus.watch_state.left_out) != left_out:
                return SamplerEnd("ended", detail="replaced")
        return await ending(sampler)
    except TimeoutError:
        return SamplerEnd("hung", sampler.asked)
    except ValueError as error:  # not JSON, or of another version's fields
        return SamplerEnd("nonsense", detail=str(error))


async def take_in(work: NodeWork, gpus: Gpus, snapshot: GpuSnapshot) -> None:
    """Take in one snapshot. An unexpected error must not end the watch, and with it the daemon."""
    try:
        await ingest.take(work, gpus, snapshot)
        await history.keep(work.records, gpus)
    except Exception:  # noqa: BLE001 - logged; the next look may be better
        log.exception("a sample of the GPUs could not be processed; the next one follows")


async def what_follows(records: Records, engines: Engines, gpus: Gpus, ended: SamplerEnd) -> bool:
    """Handle a sampler's end; returns whether to wait before the next."""
    deadline = records.config.settings.sampler_deadline_s
    if ended.detail == "replaced":
        return False
    if ended.how == "hung" and ended.asked != "driver":
        what = "XID events" if ended.asked == "events" else f"GPU {ended.asked}"
        log.error("the driver did not answer about %s for %g s; it is left out and tried again later", what, deadline)
        gpus.watch_state.left_out[ended.asked] = now()
        return False
    if ended.how == "no-nvml" and not gpus.watch_state.inventory:
        gpus.watch_state.trouble = ""
        presenter.publish(records, engines, gpus)
        return True
    why = {
        "no-nvml": "the NVIDIA driver is not loaded",
        "ended": f"the NVIDIA driver stopped answering ({ended.detail})",
        "hung": f"the NVIDIA driver hangs (no answer for {deadline:g} s)",
        "nonsense": f"the GPU sampler sent invalid data ({ended.detail})",
        "not-started": f"the GPU sampler cannot run ({ended.detail})",
    }[ended.how]
    if gpus.watch_state.trouble != why:
        log.warning("%s: GPUs are unknown until it answers again; running work goes on", why)
    await ingest.lose(records, engines, gpus, why)
    return True


async def retry_left_out(records: Records, gpus: Gpus) -> None:
    """Ask again, by a separate process, about what hung; what answers is watched again."""
    for tries in itertools.count(1):
        await asyncio.sleep(RETRY_S)
        for what in list(gpus.watch_state.left_out):
            if too_many_stuck(gpus.watch_state) or (what == "events" and tries % EVENTS_RETRY):
                continue
            if what == "events" or await answers(gpus.watch_state, what, records.config.settings.sampler_deadline_s):
                log.info("the driver answers about %s again", what if what == "events" else f"GPU {what}")
                gpus.watch_state.left_out.pop(what, None)
