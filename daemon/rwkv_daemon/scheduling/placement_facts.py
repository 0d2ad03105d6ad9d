"""The facts for placement: waiting jobs, engines, leases with room, and what lies ahead of each kind of work.

Gathers plain values from the daemon's memory; decides nothing.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from rwkv_daemon.changes.records import Records
from rwkv_daemon.rules import memory_fit, placement, rate_estimate
from rwkv_daemon.rules.endpoint_places import EndpointFact, asks_endpoint
from rwkv_daemon.rules.placement import EXPLAINED, EngineFact, EngineKind, Wait, WaitingJob
from rwkv_daemon.rules.queued_job import QueuedJob
from rwkv_daemon.rules.scale_out import LOAD_S, Outlook
from rwkv_daemon.scheduling import leases
from rwkv_daemon.scheduling.endpoint_models import EndpointModels
from rwkv_daemon.scheduling.endpoint_models import kind_of as kind_of_remote
from rwkv_daemon.scheduling.live_engines import EngineBackOff, EngineHandle, Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunnerHandle, RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import ACTIVE, jobs_by_id
from rwkv_daemon.store.queries.leases import held_leases
from rwkvctl.protocol.views import LeaseView

SETTLES_S = 3.0
"""An engine counts as busy with its last batches for so long after a job was moved away from it."""


@dataclass(slots=True)
class PlacementInput:
    """Everything one round decides about; of the waiting jobs, those that it can be about: `to_ask` are those of models
    behind endpoints, `asking` the running ones. `aside` holds the reasons of other jobs that wait."""

    waiting: list[WaitingJob]
    to_ask: list[WaitingJob]
    asking: dict[int, EngineKind]
    node: placement.NodeResources
    endpoints: dict[EngineKind, EndpointFact]
    aside: list[Wait]


@dataclass(slots=True)
class WorkAhead:
    """The work of one kind, summed up: `work_s` over the jobs of known duration, None if there is none."""

    work_s: float | None = None
    samples: int = 0
    running: int = 0
    priority: int = -(2**63)

    def add(self, work_s: float | None, samples: int, priority: int, *, running: bool) -> None:
        if work_s is not None:
            self.work_s = (self.work_s or 0.0) + work_s
        self.samples += samples
        self.running += running
        self.priority = max(self.priority, priority)


@dataclass(slots=True)
class WorkEstimates:
    """Seconds of work from measured rates, each looked up once a round."""

    waiting: WaitingJobs
    device: str
    known: dict[tuple[str, ...], float | None] = field(default_factory=dict)

    def sample_s(self, job: QueuedJob | JobRow) -> float | None:
        """Return the seconds of an engine that one sample of a job takes."""
        key = (job.weights_sha256, job.benchmark, job.kind, job.numerics)
        if key not in self.known:
            place = rate_estimate.RateKey(job.benchmark, job.kind, job.numerics, self.device)
            found = self.waiting.rates.sample_s(
                job.weights_sha256, self.waiting.queue.sizes.get(job.weights_sha256, 0), place
            )
            self.known[key] = found[0] if found else None
        return self.known[key]

    def work_s(self, job: QueuedJob | JobRow, handle: RunnerHandle | None = None) -> float | None:
        """Return the seconds of an engine that what is left of a job takes; its own pace is preferred to earlier
        measurements. None also for a job whose rows are not counted yet, as only its harness knows them."""
        own = handle.meter.sample_s if handle is not None else None
        each = own if own is not None else self.sample_s(job)
        return None if each is None or not job.total else each * max(0, job.total - job.done)


async def look(work: NodeWork, models: EndpointModels) -> PlacementInput:
    """Return the facts for one round of placement; the lanes of waiting jobs are brought up to date first."""
    clock = time.monotonic()
    active = {job.id: job for job in await jobs_by_id(work.records.store, work.running.runners) if job.state in ACTIVE}
    held = await held_leases(work.records.store)
    costs = WorkEstimates(work.waiting, main_device(work.records, work.engines))
    work.waiting.queue.running = active
    refresh(work.waiting, work.running, costs, clock)
    waiting, ahead = stranded(work.running, work.engines, active, costs), running_ahead(work.running, active, costs)
    engines = tuple(engine_facts(work.running, work.engines, active, clock))
    endpoints = endpoint_facts(work.running, models)
    if not work.waiting.disk_low:
        sum_up(work.waiting, ahead, costs)
        rooms = Counter[EngineKind]()
        for engine in engines:
            rooms[engine.serves] += work.records.config.settings.runners_per_engine
        for kind in endpoints:
            rooms[kind] += work.records.config.settings.runners_per_engine
        waiting += [
            waiting_job(work.waiting, number, costs, clock)
            for number in work.waiting.queue.lanes.front(rooms, EXPLAINED)
        ]
    settings = work.records.config.settings
    found = placement.NodeResources(
        engines=engines,
        free=() if work.waiting.pauses.draining else tuple(free_leases(work.records, work.engines, held)),
        runners_per_engine=settings.runners_per_engine,
        idle_unload_s=0.0 if work.waiting.pauses.draining else settings.idle_unload_s,
        share_gpus=settings.share_gpus,
        leases=sizes(work.records, work.engines),
        only=leases.restricted(usable(work.records, work.engines)),
        names={lease.id: leases.label(work.engines.leases, lease.id) for lease in usable(work.records, work.engines)},
        outlook={
            kind: outlook_of(work.waiting, work.engines, kind, sums, costs.device)
            for kind, sums in ahead.items()
            if not asks_endpoint(kind)
        },
        groups=groups_left(work.records, active.values()),
        not_now=not_now(work.records, work.engines, clock),
    )
    placed = [job for job in waiting if not asks_endpoint(job.needs)]
    to_ask = [job for job in waiting if asks_endpoint(job.needs)]
    asking = {n: kind_of(job) for n, job in active.items() if work.running.runners[n].endpoint and not job.wanted}
    return PlacementInput(placed, to_ask, asking, found, endpoints, waits_aside(work.waiting))


def endpoint_facts(running: RunningJobs, models: EndpointModels) -> dict[EngineKind, EndpointFact]:
    """Return what is known of each model behind an endpoint, by the kind of work that it does."""
    asked = Counter(handle.endpoint for handle in running.runners.values())
    return {
        kind_of_remote(remote): EndpointFact(name, asked[name], models.why_not_asked(remote))
        for name, remote in models.by_name.items()
    }


def refresh(waiting: WaitingJobs, running: RunningJobs, costs: WorkEstimates, clock: float) -> None:
    """Update the lanes of waiting jobs with what is measured and paused now."""
    pauses = waiting.pauses
    paused = (tuple(pauses.standing.values()), pauses.disk, tuple(pauses.trials.items()))
    priced = (waiting.rates.changes, costs.device, id(waiting.queue.sizes))
    waiting.queue.refresh(costs.work_s, priced, paused, pauses.covers, pauses.trials.values(), running.retry_at, clock)


def sum_up(waiting: WaitingJobs, ahead: dict[EngineKind, WorkAhead], costs: WorkEstimates) -> None:
    """Add the waiting work to what is left of the running work."""
    lanes = waiting.queue.lanes
    for lane in lanes.open_lanes():
        sums = ahead.setdefault(lane.key.needs, WorkAhead())
        sums.add(lane.work_s, lane.samples, lane.key.priority, running=False)
    for job in (lanes.jobs[number] for number in lanes.exempt):
        sums = ahead.setdefault(kind_of(job), WorkAhead())
        sums.add(costs.work_s(job), job.total - job.done, job.priority, running=False)


def waits_aside(waiting: WaitingJobs) -> list[Wait]:
    """Return why jobs wait that placement is not asked about. Those that wait for a retry keep their reason."""
    if waiting.disk_low:
        return []
    behind = islice(waiting.queue.lanes.behind.items(), EXPLAINED)
    text = "generates the same: its completions serve both"
    return [
        *(Wait(job, "paused", why) for job, why in waiting.queue.waiting_aside(EXPLAINED)),
        *(Wait(job, "queued", f"j{other} {text}") for job, other in behind),
    ]


def usable(records: Records, engines: Engines) -> list[LeaseView]:
    """Return the leases on which engines may be placed."""
    return leases.placeable(engines.leases or (), cpu_engines=records.config.settings.cpu_engines)


def sizes(records: Records, engines: Engines) -> dict[str, int]:
    """Return the bytes of each of these leases, 0 if unknown."""
    return {lease.id: lease.memory_total_bytes or 0 for lease in usable(records, engines)}


def misfit(records: Records, waiting: WaitingJobs, engines: Engines, weights: str, numerics: str) -> str:
    """Return why a model is too large for every lease of the node, with figures; empty if it fits, as far as is
    known."""
    learned = engines.leasing.fit(weights, numerics, main_device(records, engines)).bytes
    need = memory_fit.least_bytes(waiting.queue.sizes.get(weights, 0), numerics, learned)
    only = leases.restricted(usable(records, engines))
    return memory_fit.fits_anywhere(need, numerics, sizes(records, engines), only)


def main_device(records: Records, engines: Engines) -> str:
    """Return the most common kind of device of the leases, for which work is estimated."""
    devices = Counter(leases.device_name(lease) for lease in usable(records, engines))
    return devices.most_common(1)[0][0] if devices else ""


def kind_of(job: QueuedJob | JobRow) -> EngineKind:
    return EngineKind(job.weights_sha256, job.numerics)


def feeds(job: JobRow | None) -> bool:
    """Whether a running job still needs an engine: one that only grades does not."""
    return job is not None and (not job.stages_total or job.stages_done < job.stages_total)


def stranded(
    running: RunningJobs, engines: Engines, active: dict[int, JobRow], costs: WorkEstimates
) -> list[WaitingJob]:
    """Return the running jobs whose engine is gone, as jobs that need a place and go on where they stood."""
    live = {number for number, handle in engines.live.items() if handle.row.state != "unloading"}
    found = []
    for number, handle in running.runners.items():
        job = active.get(number)
        if not handle.needs_engine or handle.intent or handle.engine in live or job is None or not feeds(job):
            continue
        work_s = costs.work_s(job, handle)
        found.append(WaitingJob(number, kind_of(job), priority=job.priority, work_s=work_s, goes_on=True))
    return found


def waiting_job(waiting: WaitingJobs, number: int, costs: WorkEstimates, clock: float) -> WaitingJob:
    """Return a queued job as placement sees it."""
    job = waiting.queue.jobs[number]
    waited_s = waiting.queue.lanes.waited_s(number, clock)
    return WaitingJob(job.id, kind_of(job), waited_s, job.priority, job.group_name, costs.work_s(job))


def engine_facts(
    running: RunningJobs, engines: Engines, active: dict[int, JobRow], clock: float
) -> Iterable[EngineFact]:
    """Yield every engine, also those whose process is not started yet."""
    load = Counter(
        handle.engine for number, handle in running.runners.items() if handle.needs_engine and feeds(active.get(number))
    )
    helping = {e for n, handle in running.runners.items() if feeds(active.get(n)) for e in handle.endpoints}
    conditions = {lease.id: lease for lease in engines.leases or ()}
    for number, handle in engines.live.items():
        jobs, helps = load[number], number in helping or is_busy(handle, clock)
        if jobs or helps:
            handle.idle_since = clock
        leaving, handle.closed = bool(handle.closed), closed_by(conditions.get(handle.row.lease))
        room = handle.stats is None or handle.stats.room > 0
        idle_s, row = clock - handle.idle_since, handle.row
        state = (
            row.state if handle.exit is None else "unloading"
        )  # it has ended, and its GPU is to be sampled once more
        yield EngineFact(number, handle.serves, row.lease, state, jobs, idle_s, room, handle.closed, leaving, helps)
    for number, launching in engines.leasing.launching.items():
        row = launching.row
        yield EngineFact(number, EngineKind(row.weights_sha256, row.numerics), row.lease, "starting", 0)


def is_busy(handle: EngineHandle, clock: float) -> bool:
    """Whether an engine has work that no job counts for: last batches of a job that moved away, or a client of its
    own."""
    if handle.row.state != "ready":
        return False
    stats = handle.stats
    return clock - handle.withdrawn_at < SETTLES_S or (stats is not None and bool(stats.running or stats.waiting))


def closed_by(lease: LeaseView | None) -> str:
    """Return why an engine on this lease gets no new work; empty if it may."""
    if lease is None or lease.condition not in leases.CLOSING:
        return ""
    return f"its GPU is {lease.condition}" + (f" ({lease.reason})" if lease.reason else "")


def free_leases(records: Records, engines: Engines, held: dict[str, dict[int, int]]) -> Iterable[memory_fit.FreeLease]:
    """Return leases with room whose lock nobody else is known to hold."""
    settings = records.config.settings
    serving = {
        lease: {slot: engines.live[e].serves if e in engines.live else e for slot, e in slots.items()}
        for lease, slots in held.items()
    }
    found = leases.free_leases(
        engines.leases or (), serving, cpu_engines=settings.cpu_engines, share=settings.share_gpus
    )
    return (lease for lease in found if not engines.leasing.is_locked_out(lease.id))


def running_ahead(running: RunningJobs, active: dict[int, JobRow], costs: WorkEstimates) -> dict[EngineKind, WorkAhead]:
    """Return what is left of the running jobs, by kind."""
    ahead: dict[EngineKind, WorkAhead] = {}
    for job in active.values():
        if feeds(job) and running.runners[job.id].needs_engine:
            left, seconds = job.total - job.done, costs.work_s(job, running.runners[job.id])
            ahead.setdefault(kind_of(job), WorkAhead()).add(seconds, left, job.priority, running=True)
    return ahead


def outlook_of(waiting: WaitingJobs, engines: Engines, kind: EngineKind, sums: WorkAhead, device: str) -> Outlook:
    """Return the sums with what is known of engines of that kind."""
    fit = engines.leasing.fit(kind.weights, kind.numerics, device)
    file_bytes = waiting.queue.sizes.get(kind.weights, 0)
    return Outlook(
        work_s=sums.work_s,
        samples=sums.samples,
        running=sums.running,
        priority=sums.priority,
        load_s=fit.load_s or LOAD_S,
        need_bytes=memory_fit.least_bytes(file_bytes, kind.numerics, fit.bytes),
    )


def groups_left(records: Records, running: Iterable[JobRow]) -> dict[str, int]:
    """Return how many more jobs of each limited group may start."""
    count = Counter(job.group_name for job in running if job.group_name)
    return {group: limit - count[group] for group, limit in records.config.groups.items()}


def not_now(records: Records, engines: Engines, clock: float) -> dict[EngineKind, str]:
    """Return the kinds whose engines have failed, until they may be tried again, with the reason. One that has failed
    too often is tried once more, and then it is decided what follows."""
    most = records.config.settings.max_restarts
    return {
        kind: f"its engine ended {times(back_off)}; it is started again in a moment"
        for kind, back_off in engines.back_off.items()
        if back_off.not_before > clock and back_off.failures <= most
    }


def times(back_off: EngineBackOff) -> str:
    """Return how often an engine failed, or was ended from outside, in words."""
    return f"by a kill from outside {back_off.kills} times" if back_off.kills else f"{back_off.failures} times"
