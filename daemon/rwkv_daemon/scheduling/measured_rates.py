"""How fast running jobs are, and what is stored about it once they have ended: seconds of an engine per sample."""

import time
from collections import Counter

from rwkv_daemon.changes.records import Records
from rwkv_daemon.rules.rate_estimate import MeasuredRate, RateKey, blended
from rwkv_daemon.scheduling.leases import device_name
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.placement_facts import feeds
from rwkv_daemon.scheduling.running_jobs import RunnerHandle, RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.leases import engine_fits
from rwkv_daemon.store.queries.rates import known_rates, save_rate


async def recall(records: Records, waiting: WaitingJobs, engines: Engines) -> None:
    """Load what earlier daemons measured and stored: the rates of samples, and how many sequences fit in an engine."""
    for rate in await known_rates(records.store):
        waiting.rates.put(rate)
    engines.leasing.learn(await engine_fits(records.store))


def note(waiting: WaitingJobs, running: RunningJobs) -> None:
    """Share the engine time since the last call among the jobs that used each engine."""
    clock, queue = time.monotonic(), waiting.queue
    passed_s, queue.measured_at = clock - (queue.measured_at or clock), clock
    feeding = [n for n in running.runners if n not in queue.running or feeds(queue.running[n])]
    used = {number: engines_of(running.runners[number]) for number in feeding}
    users = Counter(engine for engines in used.values() for engine in engines)
    for number, engines in used.items():
        job = queue.running.get(number)
        running.runners[number].meter.note(sum(passed_s / users[e] for e in engines), job.done if job else None)


def engines_of(handle: RunnerHandle) -> tuple[int, ...]:
    """Return the engines that a runner was given; before that, the one that it was started for."""
    return handle.endpoints or ((handle.engine,) if handle.engine is not None else ())


async def remember(records: Records, waiting: WaitingJobs, engines: Engines, job: JobRow, handle: RunnerHandle) -> None:
    """Store the rate that a job showed when its runner is gone, if it did enough samples."""
    handle.meter.note(0.0, job.done)
    sample_s, engine = handle.meter.sample_s, engines.live.get(handle.engine or 0)
    lease = next((lease for lease in engines.leases or () if engine and lease.id == engine.row.lease), None)
    if sample_s is None or lease is None:
        return
    place = RateKey(job.benchmark, job.kind, job.numerics, device_name(lease))
    before = waiting.rates.by_weights.get((job.weights_sha256, place))
    mean, samples = blended(before, sample_s, handle.meter.samples)
    size = waiting.queue.sizes.get(job.weights_sha256, 0)
    rate = MeasuredRate(job.weights_sha256, place, mean, samples, size)
    waiting.rates.put(rate)
    async with records.store.write() as db:
        await save_rate(db, rate)
