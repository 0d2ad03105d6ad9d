"""Engines and leases as clients see them."""

import msgspec

from rwkv_daemon.scheduling.live_engines import EngineHandle, Engines
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkvctl.protocol.views import EngineView, LeaseView


def engine_view(running: RunningJobs, handle: EngineHandle) -> EngineView:
    """Return an engine as clients see it, with the rates it last reported, if any, and the jobs it serves."""
    row, stats = handle.row, handle.stats
    jobs = tuple(f"j{number}" for number, runner in running.runners.items() if runner.engine == row.id)
    view = EngineView(
        id=row.name, model=row.model, numerics=row.numerics, lease=row.lease, state=row.state,
        pid=handle.worker.pid, jobs=jobs, detail=row.detail,
    )  # fmt: skip
    if stats is None:
        return view
    return msgspec.structs.replace(
        view,
        running=stats.running,
        waiting=stats.waiting,
        slots=stats.slots,
        prefill_tokens_per_s=stats.prefill_tokens_per_s,
        decode_tokens_per_s=stats.decode_tokens_per_s,
        occupancy=stats.occupancy,
        cache_hits=stats.cache_hits,
        cache_misses=stats.cache_misses,
    )


def lease_views(engines: Engines) -> tuple[LeaseView, ...]:
    """Return the leases, each with the engines that hold it."""
    holders: dict[str, str] = {}
    for handle in engines.live.values():
        holders[handle.row.lease] = " ".join(filter(None, [holders.get(handle.row.lease), handle.row.name]))
    return tuple(
        msgspec.structs.replace(lease, engine=holders[lease.id], use="leased" if lease.use == "free" else lease.use)
        if lease.id in holders
        else lease
        for lease in engines.leases or []
    )
