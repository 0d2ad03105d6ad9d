"""One placement decision about 10,000 waiting jobs on 64 GPUs, and the forecast of their ends.

    python bench/placement.py

Pure computations of the daemon's own functions in this process; no GPU is needed and none is used.
"""

import statistics
import time
from collections.abc import Callable

from figures import header

from rwkv_daemon.rules.forecast import ForecastJob, ForecastLease, forecast
from rwkv_daemon.rules.memory_fit import FreeLease
from rwkv_daemon.rules.placement import (
    EngineFact,
    EngineKind,
    NodeResources,
    StartEngine,
    StartJob,
    WaitingJob,
    in_order,
    place,
)
from rwkv_daemon.rules.scale_out import Outlook

JOBS, GPUS, KINDS = 10_000, 64, 200


def main() -> None:
    header()
    kinds = [EngineKind(f"model-{number}", "fast") for number in range(KINDS)]
    waiting = [
        WaitingJob(n, kinds[n % KINDS], priority=n % 3, work_s=None if n % 7 == 0 else float(n % 977))
        for n in range(JOBS)
    ]  # fmt: skip
    outlook = {kind: Outlook(work_s=1e5, samples=10**6, running=n % 2) for n, kind in enumerate(kinds)}
    leases = tuple(FreeLease(f"GPU-{number}", "H100", 80 << 30) for number in range(GPUS))
    empty = NodeResources(engines=(), free=leases, runners_per_engine=4, idle_unload_s=600.0, outlook=outlook)
    engines = tuple(EngineFact(n, kinds[n], f"GPU-{n}", "ready", n % 4) for n in range(GPUS))
    warm = NodeResources(engines=engines, free=(), runners_per_engine=4, idle_unload_s=600.0, outlook=outlook)
    assert sum(isinstance(command, StartEngine) for command in place(waiting, empty)) == GPUS
    assert any(isinstance(command, StartJob) for command in place(waiting, warm))
    line(f"decision, {JOBS:,} jobs, {GPUS} free GPUs", lambda: place(waiting, empty), 100)
    line(f"decision, {JOBS:,} jobs, {GPUS} warm engines", lambda: place(waiting, warm), 100)
    loads = [ForecastJob(job.id, job.needs, job.work_s or 60.0) for job in in_order(waiting)]
    servers = [ForecastLease(f"GPU-{number}") for number in range(GPUS)]
    line(f"forecast of {JOBS:,} jobs on {GPUS} GPUs", lambda: forecast(loads, servers, {}), None)


def line(what: str, action: Callable[[], object], bar_ms: float | None) -> None:
    """Print the median time of several runs."""
    taken = []
    for _ in range(15):
        began = time.perf_counter()
        action()
        taken.append((time.perf_counter() - began) * 1000)
    value = statistics.median(taken)
    verdict = "" if bar_ms is None else f"   bar {bar_ms:g} ms: {'met' if value <= bar_ms else 'MISSED'}"
    print(f"{what:<52}{value:10.2f} ms  {verdict}")


if __name__ == "__main__":
    main()
