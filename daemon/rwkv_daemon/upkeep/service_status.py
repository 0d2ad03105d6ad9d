"""What the service manager is told: READY=1 once the node is ready, and from then on a line for `systemctl status`."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.host.daemon_service import DaemonService
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import StoreError
from rwkvctl.protocol.states import ACTIVE
from rwkvctl.protocol.views import LeaseView

LOOK_S: Final = 0.05
STATUS_S: Final = 5.0
TRIES: Final = 200


async def report(work: NodeWork, service: DaemonService) -> None:
    """Send READY=1 after recovery and the sampler's first result, or when the store is away: the daemon answers
    requests then, and a restart would not help. Afterwards keep the status line current."""
    if service.notifier.link is None:
        return
    while work.engines.leases is None and not (work.records.trouble and not work.records.up.is_set()):
        await asyncio.sleep(LOOK_S)
    await ready(work, service)
    while True:
        await asyncio.sleep(STATUS_S)
        service.notifier.status(await line(work.records, work.waiting, work.engines))


async def ready(work: NodeWork, service: DaemonService) -> None:
    """Send READY=1 until it is taken: a manager that missed it would consider the start failed."""
    text = await line(work.records, work.waiting, work.engines)
    for _ in range(TRIES):
        if service.notifier.ready(text):
            return
        await asyncio.sleep(LOOK_S)
    log.warning("the service manager does not take READY=1")


async def line(records: Records, waiting: WaitingJobs, engines: Engines) -> str:
    """Return the status line; if the store cannot be read, why."""
    try:
        jobs = await waiting.state_counts.of(records.store)
    except StoreError as error:
        return records.trouble or f"the store cannot be read: {error}"
    return summary(jobs, len(engines.live), engines.leases or (), records.trouble)


def summary(jobs: Mapping[str, int], engines: int, leases: Iterable[LeaseView], trouble: str) -> str:
    """Return a text such as `2 jobs run, 5 wait; 1 engine; GPUs: 6 free, 2 unknown`."""
    run = sum(number for state, number in jobs.items() if state in ACTIVE)
    wait = sum(jobs.get(state, 0) for state in ("queued", "held", "paused"))
    uses = Counter(lease.use for lease in leases if not lease.id.startswith("cpu"))
    gpus = ", ".join(f"{number} {use}" for use, number in sorted(uses.items())) or "none"
    text = f"{run} jobs run, {wait} wait; {engines} engines; GPUs: {gpus}"
    return f"{text}; {trouble}" if trouble else text
