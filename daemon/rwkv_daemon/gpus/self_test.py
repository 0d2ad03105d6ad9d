"""Whether NVML's process list is plausible: a driver of another version has listed wrong pids before. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rwkv_daemon.rules.gpu_facts import GpuReading

MOST_ABSENT: Final = 0.5
"""If more than this share of the listed pids does not exist, the list is of another PID namespace, or wrong."""


def fault(
    readings: Iterable[GpuReading], own: Mapping[str, Iterable[int]], pid_max: int, exists: Callable[[int], bool]
) -> str:
    """Return why the list cannot be trusted; empty if it can. `own` are the pids of our engines that compute, by
    GPU."""
    listed = {reading.id: {p.pid for p in reading.processes} for reading in readings if reading.processes is not None}
    pids = {pid for found in listed.values() for pid in found}
    if absurd := sorted(pid for pid in pids if not 0 < pid <= pid_max):
        return f"NVML lists pid {absurd[0]}, which no process can have"
    absent = [pid for pid in pids if not exists(pid)]
    if len(pids) > 1 and len(absent) > MOST_ABSENT * len(pids):
        return f"{len(absent)} of the {len(pids)} pids that NVML lists do not exist: of another PID namespace?"
    for gpu, engines in own.items():
        for pid in engines:
            if gpu in listed and pid not in listed[gpu]:
                return f"NVML does not list our engine (pid {pid}) on {gpu}, where it computes"
    return ""
