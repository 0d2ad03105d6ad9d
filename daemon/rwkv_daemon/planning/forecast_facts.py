"""The forecast with the facts of this node: for queued jobs, and for a plan that would be queued behind them."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.endpoint_places import asks_endpoint
from rwkv_daemon.rules.forecast import Forecast, ForecastJob, ForecastLease, forecast
from rwkv_daemon.rules.job_lanes import UNKNOWN, LaneKey, key_of
from rwkv_daemon.rules.placement import EngineKind, WaitingJob, in_order
from rwkv_daemon.rules.plan import Pair, Plan
from rwkv_daemon.rules.rate_estimate import RateKey
from rwkv_daemon.rules.scale_out import LOAD_S
from rwkv_daemon.scheduling import leases, placement_facts
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkvctl.protocol.views import PlanRow

EVERY_S: Final = 3.0
SHARE: Final = 100
"""Forecasting takes at most a hundredth of the time."""
FIRST: Final = 1000
"""Waiting jobs whose start is estimated; those behind them are forecast in groups."""
PARTS: Final = 2000
WORDS: Final = {"same": "", "size": "by a model of its size", "scaled": "by a model of another size"}


@dataclass(slots=True)
class WorkSums:
    """Work of one kind and priority: seconds over the jobs whose duration is known, and how many are unknown."""

    known_s: float = 0.0
    known: int = 0
    unknown: int = 0

    def add(self, work_s: float | None, sign: int = 1) -> None:
        if work_s is None:
            self.unknown += sign
        else:
            self.known, self.known_s = self.known + sign, self.known_s + sign * work_s


Rest = dict[tuple[int, EngineKind], WorkSums]


async def keep_current(work: NodeWork) -> None:
    """Update the forecast again and again, outside the supervisor's round, as it decides nothing. Skipped while nothing
    has changed."""
    seen: object = None
    waiting, queue = work.waiting, work.waiting.queue
    while True:
        began = time.thread_time()
        try:
            now = queue.lanes.version, waiting.rates.changes, len(queue.running), len(work.engines.live)
            if queue.running or now != seen:
                waiting.forecast = ahead(work, ()) if queue.jobs or queue.running else Forecast()
            seen = now
        except Exception:  # noqa: BLE001 - logged; a forecast that fails must not end the daemon
            log.exception("there is no forecast")
            work.waiting.forecast = Forecast()
        await asyncio.sleep(max(EVERY_S, SHARE * (time.thread_time() - began)))


def ahead(work: NodeWork, more: Sequence[WaitingJob], besides: Rest | None = None) -> Forecast:
    """Return the forecast for everything that runs and waits, including the jobs `more` and the work `besides`."""
    clock = time.monotonic()
    costs = placement_facts.WorkEstimates(work.waiting, placement_facts.main_device(work.records, work.engines))
    lanes = work.waiting.queue.lanes
    open_lanes = [] if work.waiting.disk_low else lanes.open_lanes()
    ready = [lane for lane in open_lanes if not asks_endpoint(lane.key.needs)]
    rest: Rest = {key: replace(sums) for key, sums in (besides or {}).items()}
    for lane in ready:
        sums = rest.setdefault((lane.key.priority, lane.key.needs), WorkSums())
        sums.known, sums.known_s = sums.known + lane.known, sums.known_s + lane.known_s
        sums.unknown += len(lane.lengths) - lane.known
    first = [placement_facts.waiting_job(work.waiting, turn.job, costs, clock) for turn in lanes.turns(ready, FIRST)]
    for job in first:
        length = lanes.lanes[lane_key(work.waiting, job.id)].lengths[job.id]
        rest[job.priority, job.needs].add(None if length == UNKNOWN else -length, -1)
    servers = servers_of(work.records, work.engines)
    loads = [
        *running_loads(work.waiting, work.running, work.engines, costs),
        *(ForecastJob(job.id, job.needs, job.work_s) for job in in_order([*more, *first])),
    ]
    loads += parts(rest, len(servers))
    kinds = {job.needs for job in (*more, *first)} | {kind for _, kind in rest}
    load_s = {kind: work.engines.leasing.fit(*kind, costs.device).load_s or LOAD_S for kind in kinds}
    return forecast(loads, servers, load_s)


def lane_key(waiting: WaitingJobs, job: int) -> LaneKey:
    return key_of(waiting.queue.jobs[job])


def parts(rest: Rest, servers: int) -> list[ForecastJob]:
    """Split very many jobs into a few loads of each kind: as many as can be spread over all leases."""
    each = max(1, min(2 * servers, PARTS // max(1, len(rest))))
    loads = []
    for (_, kind), sums in sorted(rest.items(), key=lambda one: -one[0][0]):
        if sums.known > 0:
            count = min(each, sums.known)
            loads += [ForecastJob(None, kind, max(0.0, sums.known_s) / count)] * count
        for place in range(count := min(servers or 1, sums.unknown)):
            loads.append(ForecastJob(None, kind, None, jobs=sums.unknown // count + (place < sums.unknown % count)))
    return loads


def running_loads(
    waiting: WaitingJobs, running: RunningJobs, engines: Engines, work: placement_facts.WorkEstimates
) -> list[ForecastJob]:
    """Return what is left of the running jobs."""
    loads = []
    for number, job in waiting.queue.running.items():
        handle = running.runners.get(number)
        engine = engines.live.get(handle.engine or 0) if handle is not None else None
        if handle is not None and engine is not None and placement_facts.feeds(job):
            left_s = work.work_s(job, handle)
            starves = handle.pace.idle_s(time.monotonic()) is not None
            known_s = None if left_s is None or starves or handle.meter.disproves(left_s) else left_s
            loads.append(ForecastJob(number, placement_facts.kind_of(job), known_s, engine.row.lease))
    return loads


def servers_of(records: Records, engines: Engines) -> list[ForecastLease]:
    """Return the leases that compute now or may be given an engine."""
    serving = {handle.row.lease: handle.serves for handle in engines.live.values() if not handle.closed}
    return [
        ForecastLease(lease.id, serving.get(lease.id))
        for lease in placement_facts.usable(records, engines)
        if lease.id in serving or (lease.use == "free" and lease.condition == "ok")
    ]


async def with_estimates(work: NodeWork, made: Plan, priority: int) -> tuple[Plan, Forecast]:
    """Return the plan with the estimates of its rows, and its forecast. Its hash does not change. In a very large plan
    single rows have no start time."""
    pairs: list[Pair] = []
    for first in range(0, len(made.pairs), FIRST):
        pairs += estimated_pairs(work.records, work.waiting, work.engines, made.pairs[first : first + FIRST])
        await asyncio.sleep(0)
    runs = [(place, pair) for place, pair in enumerate(pairs) if is_run(pair)]
    if len(runs) > FIRST:
        rest: Rest = {}
        for _, pair in runs:
            rest.setdefault((priority, needs(pair)), WorkSums()).add(pair.row.est_s)
        return replace(made, pairs=tuple(pairs)), ahead(work, (), rest)
    more = [WaitingJob(-place - 1, needs(pair), priority=priority, work_s=pair.row.est_s) for place, pair in runs]
    found = ahead(work, more)
    labels = {
        lease.id: leases.label(work.engines.leases, lease.id)
        for lease in placement_facts.usable(work.records, work.engines)
    }
    for place, pair in runs:
        if (expected := found.jobs.get(-place - 1)) is not None:
            row = structs.replace(
                pair.row, starts_s=expected.starts_s, ends_s=expected.ends_s, lease=labels[expected.lease],
                loads=expected.loads,
            )  # fmt: skip
            pairs[place] = replace(pair, row=row)
    return replace(made, pairs=tuple(pairs)), found


def is_run(pair: Pair) -> bool:
    """Whether an engine would work on a pair."""
    return pair.generates and pair.row.action in {"run", "resume"} and not asks_endpoint(needs(pair))


def needs(pair: Pair) -> EngineKind:
    return EngineKind(pair.model.sha256, pair.row.numerics)


def estimated_pairs(records: Records, waiting: WaitingJobs, engines: Engines, pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs with how long one engine would work on each."""
    device = placement_facts.main_device(records, engines)
    return [replace(pair, row=estimated(waiting, pair, device)) if is_run(pair) else pair for pair in pairs]


def estimated(waiting: WaitingJobs, pair: Pair, device: str) -> PlanRow:
    """Return a row with how long one engine would work on it, if that is known."""
    kind, row, size = pair.kind, pair.row, waiting.queue.sizes.get(pair.model.sha256, 0)
    place = RateKey(kind.benchmark, kind.kind, row.numerics, device)
    found = waiting.rates.sample_s(pair.model.sha256, size, place)
    if found is None or row.samples is None:
        return row
    return structs.replace(row, est_s=found[0] * row.samples, basis=WORDS[found[1]])
