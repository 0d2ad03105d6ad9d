"""Reservations that end with a process: when a training run is over, its GPUs take work again without anybody saying
so. A process is known by its pid, its start and the boot, so that a later one with the same pid is not taken for it."""

import asyncio
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import condition_store
from rwkv_daemon.gpus.condition_rules import AwaitedProcess, Unreserve
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.store import StoreError
from rwkv_daemon.workers import shim, worker_process

EVERY_S: Final = 2.0


def identify(pid: int) -> AwaitedProcess | None:
    """Return what identifies a process; None if there is none that this user may see, or it has ended."""
    try:
        start = shim.start_ticks(pid)
    except (OSError, IndexError, ValueError):
        return None
    found = AwaitedProcess(pid, start, worker_process.boot_id())
    return None if is_over(found) else found


def is_over(process: AwaitedProcess) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has, too."""
    same_boot = process.boot_id == worker_process.boot_id()
    return not (same_boot and worker_process.is_same(process.pid, process.start_ticks))


async def end_forever(records: Records, engines: Engines, gpus: Gpus) -> None:
    """End reservations whose process is over; until cancelled."""
    while True:
        try:
            await end_all(records, engines, gpus)
        except StoreError as error:
            log.error("reservations of GPUs cannot be ended: %s", error)
        await asyncio.sleep(EVERY_S)


async def end_all(records: Records, engines: Engines, gpus: Gpus) -> None:
    """End the reservations whose process is over, in one transaction."""
    over = [gpu_id for gpu_id, record in gpus.watch_state.records.items() if record.until and is_over(record.until)]
    if not over:
        return
    async with records.owner, records.change() as change:
        for gpu_id in over:
            record = gpus.watch_state.records.get(gpu_id)
            if record is not None and record.until and is_over(record.until):
                await condition_store.happen(records, engines, gpus, change, gpu_id, Unreserve())
