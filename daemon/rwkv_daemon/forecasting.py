"""The forecast with the facts of this node: of what is queued, and of a plan behind it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from rwkv_daemon import leases, situation
from rwkv_daemon.estimate import Place
from rwkv_daemon.forecast import Forecast, Load, Server, forecast
from rwkv_daemon.node import Node, log
from rwkv_daemon.placement import EngineKind, WaitingJob, in_order
from rwkv_daemon.plan import Pair, Plan
from rwkv_daemon.spreading import LOAD_S
from rwkvctl.protocol.messages import PlanRow

EVERY_S: Final = 3.0
WORDS: Final = {"same": "", "size": "by a model of its size", "scaled": "by a model of another size"}


async def keep_current(node: Node) -> None:
    """Look ahead again and again; outside the supervisor's round, as it decides nothing."""
    while True:
        began = time.monotonic()
        try:
            node.forecast = await ahead(node, ()) if node.queue.jobs or node.queue.running else Forecast()
        except Exception:  # noqa: BLE001 - logged; a forecast that fails must not end the daemon
            log.exception("there is no forecast")
            node.forecast = Forecast()
        await asyncio.sleep(max(EVERY_S, 20 * (time.monotonic() - began)))


async def ahead(node: Node, more: Sequence[WaitingJob]) -> Forecast:
    """What is expected of everything that runs and waits, and of `more` jobs among it."""
    clock = time.monotonic()
    work = situation.Clock(node, situation.main_device(node))
    waiting = list(more)
    ready, _ = situation.one_each(situation.sifted(node, clock)[0], node.queue.running)
    for first in range(0, len(ready), situation.PIECE):
        waiting += [situation.waiting_job(node, job, work, clock) for job in ready[first : first + situation.PIECE]]
        await asyncio.sleep(0)
    kinds = {job.needs for job in waiting}
    load_s = {kind: node.leasing.fit(*kind, work.device).load_s or LOAD_S for kind in kinds}
    loads, servers = running_loads(node, work), servers_of(node)
    return await asyncio.to_thread(deal_out, loads, waiting, servers, load_s)


def deal_out(
    running: list[Load], waiting: list[WaitingJob], servers: list[Server], load_s: dict[EngineKind, float]
) -> Forecast:
    """What runs goes first, then the rest in the order of placement."""
    loads = [Load(job.id, job.needs, job.work_s) for job in in_order(waiting)]
    return forecast([*running, *loads], servers, load_s)


def running_loads(node: Node, work: situation.Clock) -> list[Load]:
    """What is left of the jobs that run."""
    loads = []
    for number, job in node.queue.running.items():
        handle = node.runners.get(number)
        engine = node.engines.get(handle.engine or 0) if handle is not None else None
        if handle is not None and engine is not None and situation.feeds(job):
            left_s = work.work_s(job, handle)
            starves = handle.pace.idle_s(time.monotonic()) is not None
            known_s = None if left_s is None or starves or handle.meter.disproves(left_s) else left_s
            loads.append(Load(number, situation.kind_of(job), known_s, engine.row.lease))
    return loads


def servers_of(node: Node) -> list[Server]:
    """Leases that compute now or may be given an engine."""
    serving = {handle.row.lease: handle.serves for handle in node.engines.values() if not handle.closed}
    return [
        Server(lease.id, serving.get(lease.id))
        for lease in situation.usable(node)
        if lease.id in serving or (lease.use == "free" and lease.condition == "ok")
    ]


async def with_estimates(node: Node, made: Plan, priority: int) -> tuple[Plan, Forecast]:
    """The plan with what is expected of its rows, and when all of it will be done. Its hash does not change."""
    engaged = ((place, pair) for place, pair in enumerate(made.pairs) if pair.generates)
    runs = [(place, pair) for place, pair in engaged if pair.row.action in {"run", "resume"}]
    work = situation.Clock(node, situation.main_device(node))
    rows: dict[int, PlanRow] = {}
    more = []
    for place, pair in runs:
        row = rows[place] = estimated(node, pair, work.device)
        needs = EngineKind(pair.model.sha256, pair.row.numerics)
        more.append(WaitingJob(-place - 1, needs, priority=priority, work_s=row.est_s))
    found = await ahead(node, more)
    labels = {lease.id: leases.label(node.leases, lease.id) for lease in situation.usable(node)}
    for place, row in rows.items():
        if (expected := found.jobs.get(-place - 1)) is not None:
            rows[place] = structs.replace(
                row, starts_s=expected.starts_s, ends_s=expected.ends_s, lease=labels[expected.lease],
                loads=expected.loads,
            )  # fmt: skip
    pairs = tuple(replace(pair, row=rows.get(place, pair.row)) for place, pair in enumerate(made.pairs))
    return replace(made, pairs=pairs), found


def estimated(node: Node, pair: Pair, device: str) -> PlanRow:
    """A row with how long one engine would work on it, where that was ever measured."""
    kind, row, size = pair.kind, pair.row, node.queue.sizes.get(pair.model.sha256, 0)
    place = Place(kind.benchmark, kind.kind, row.numerics, device)
    found = node.rates.sample_s(pair.model.sha256, size, place)
    if found is None or row.samples is None:
        return row
    return structs.replace(row, est_s=found[0] * row.samples, basis=WORDS[found[1]])
