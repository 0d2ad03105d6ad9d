"""What the daemon checks periodically: free disk space, trials of suspects, a finished drain, old logs."""

import asyncio
import time
from pathlib import Path
from typing import Final

from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import poison_jobs
from rwkv_daemon.jobs.low_disk import look_at_disk
from rwkv_daemon.logs import retention
from rwkv_daemon.node import Node
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.pauses_attempts import ended_jobs

LOOK_S: Final = 1.0
PRUNE_S: Final = 600.0


async def keep_up(node: Node) -> None:
    """Check everything once a second, until cancelled."""
    idle, pruned = "", float("-inf")
    while True:
        try:
            async with node.records.owner:
                await look_at_disk(node.records, node.waiting, node.running)
                await poison_jobs.end_trials(node.records, node.waiting, node.running)
                idle = await look_at_drain(node, idle)
            if time.monotonic() - pruned > PRUNE_S:
                pruned = time.monotonic()
                await prune_logs(node)
        except StoreError as error:
            log.error("upkeep has to wait: %s", error)
        except OSError as error:
            log.error("the home cannot be checked: %s", error)
        await asyncio.sleep(LOOK_S)


async def look_at_drain(node: Node, told: str) -> str:
    """Store an event once a drain is done. Returns the drain for which it was stored."""
    drain = node.waiting.pauses.draining
    if drain is None or drain.at == told or node.running.runners:
        return told if drain else ""
    async with node.records.change() as change:
        await change.note("drained", text="the node is idle: nothing runs, nothing starts until `rwkvctl drain --off`")
    return drain.at


async def prune_logs(node: Node) -> None:
    """Remove the oldest logs of finished work if all logs together are too large."""
    most = node.records.config.settings.logs_total_bytes
    if not most:
        return
    jobs = await ended_jobs(node.records.store)
    engines = set(node.engines.live)

    def finished(path: Path) -> bool:
        kind, number = path.parent.name[0], path.parent.name[1:]
        return number.isdecimal() and (int(number) in jobs if kind == "j" else int(number) not in engines)

    removed = await asyncio.to_thread(retention.prune, node.records.config.runs_dir, most, finished)
    if removed:
        log.info("%d logs of finished work were removed: all together were over %d bytes", removed, most)
