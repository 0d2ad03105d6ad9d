"""What the daemon looks after by the clock: room on the disk, trials of suspects, a drain that is done, old logs."""

import asyncio
import time
from pathlib import Path
from typing import Final

from rwkv_daemon.host import disk
from rwkv_daemon.jobs import poison_jobs
from rwkv_daemon.jobs.stop_intents import apply
from rwkv_daemon.logs import retention
from rwkv_daemon.node import Node, log
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.pauses_attempts import ended_jobs

LOOK_S: Final = 1.0
PRUNE_S: Final = 600.0


async def keep_up(node: Node) -> None:
    """Look at everything once a second, until cancelled."""
    idle, pruned = "", float("-inf")
    while True:
        try:
            async with node.owner:
                await look_at_disk(node)
                await poison_jobs.end_trials(node)
                idle = await look_at_drain(node, idle)
            if time.monotonic() - pruned > PRUNE_S:
                pruned = time.monotonic()
                await prune_logs(node)
        except StoreError as error:
            log.error("upkeep has to wait: %s", error)
        except OSError as error:
            log.error("the home cannot be looked at: %s", error)
        await asyncio.sleep(LOOK_S)


async def look_at_disk(node: Node) -> None:
    """Pause everything while there is too little room, and let it go on afterwards."""
    settings, home = node.config.settings, node.config.home
    free = await asyncio.to_thread(disk.free, home)
    floor, ballast = settings.min_free_disk_bytes, home / "ballast"
    room = disk.judge(free, floor, settings.ballast_bytes, was_low=bool(node.pauses.disk))
    if room.give_ballast and disk.give_ballast(ballast):
        log.error("the disk is all but full (%d bytes): the ballast is given up, so that work can end", free)
    if room.take_ballast:
        await asyncio.to_thread(disk.take_ballast, ballast, settings.ballast_bytes)
    if room.low == bool(node.pauses.disk):
        return
    node.pauses.disk = disk.sentence(floor, home) if room.low else ""
    await apply(node)
    text = f"jobs are paused: {node.pauses.disk}" if room.low else f"there is room under {home} again: jobs go on"
    async with node.change() as change:
        await change.note("disk", text=text, data={"low": room.low, "free_bytes": free})


async def look_at_drain(node: Node, told: str) -> str:
    """Say once that a drain is done. Returns which one was spoken of."""
    drain = node.pauses.draining
    if drain is None or drain.at == told or node.runners:
        return told if drain else ""
    async with node.change() as change:
        await change.note("drained", text="the node is idle: nothing runs, nothing starts until `rwkvctl drain --off`")
    return drain.at


async def prune_logs(node: Node) -> None:
    """Remove the oldest logs of finished work where all logs together are too large."""
    most = node.config.settings.logs_total_bytes
    if not most:
        return
    jobs = await ended_jobs(node.store)
    engines = set(node.engines)

    def finished(path: Path) -> bool:
        kind, number = path.parent.name[0], path.parent.name[1:]
        return number.isdecimal() and (int(number) in jobs if kind == "j" else int(number) not in engines)

    removed = await asyncio.to_thread(retention.prune, node.config.runs_dir, most, finished)
    if removed:
        log.info("%d logs of finished work were removed: all together were over %d bytes", removed, most)
