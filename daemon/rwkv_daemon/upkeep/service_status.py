"""What the service manager is told of the node: ready once it is, and one line for `systemctl status` from then on."""

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
    """Say READY=1 after recovery and the sampler's first verdict, or that the store is away: the daemon answers then,
    and a restart would help nobody. Keep the status line true afterwards."""
    if service.notifier.link is None:
        return
    while work.engines.leases is None and not (work.records.trouble and not work.records.up.is_set()):
        await asyncio.sleep(LOOK_S)
    await ready(work, service)
    while True:
        await asyncio.sleep(STATUS_S)
        service.notifier.status(await line(work.records, work.waiting, work.engines))


async def ready(work: NodeWork, service: DaemonService) -> None:
    """Say READY=1 until it is taken: a manager that missed it would take the daemon for one that does not start."""
    text = await line(work.records, work.waiting, work.engines)
    for _ in range(TRIES):
        if service.notifier.ready(text):
            return
        await asyncio.sleep(LOOK_S)
    log.warning("the service manager does not take READY=1")


async def line(records: Records, waiting: WaitingJobs, engines: Engines) -> str:
    """The node now; where the store cannot be read, that."""
    try:
        jobs = await waiting.state_counts.of(records.store)
    except StoreError as error:
        return records.trouble or f"the store cannot be read: {error}"
    return summary(jobs, len(engines.live), engines.leases or (), records.trouble)


def summary(jobs: Mapping[str, int], engines: int, leases: Iterable[LeaseView], trouble: str) -> str:
    """`2 jobs run, 5 wait; 1 engine; GPUs: 6 free, 2 unknown`."""
    run = sum(number for state, number in jobs.items() if state in ACTIVE)
    wait = sum(jobs.get(state, 0) for state in ("queued", "held", "paused"))
    uses = Counter(lease.use for lease in leases if not lease.id.startswith("cpu"))
    gpus = ", ".join(f"{number} {use}" for use, number in sorted(uses.items())) or "none"
    text = f"{run} jobs run, {wait} wait; {engines} engines; GPUs: {gpus}"
    return f"{text}; {trouble}" if trouble else text
