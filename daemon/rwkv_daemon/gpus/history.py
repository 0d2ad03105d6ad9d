"""The last 24 hours of the GPUs: written every second, read by the time travel of the console."""

import asyncio
import math
import time
from collections.abc import Iterable
from statistics import fmean
from typing import Final, TypeVar

from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import history_ring, presenter
from rwkv_daemon.gpus.history_ring import SECONDS, HistoryPoint, HistoryRing
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.host.daemon_log import log
from rwkvctl.protocol.gpus import GpuHistoryReply, GpuHistoryRequest, GpuTrack

Number = TypeVar("Number", int, float)
MOST_STEPS: Final = 2000
WINDOW_S: Final = 3600
TOGETHER: Final = 10
"""Seconds that are written at once; a crash may lose so many."""


async def keep(records: Records, gpus: Gpus) -> None:
    """Record the GPUs in this second. A full disk leaves a gap in the history and has no other effect."""
    if not gpus.by_id:
        return
    waiting = gpus.watch_state.unwritten
    waiting.append((int(time.time()), {gpu.id: HistoryPoint.of(gpu) for gpu in gpus.by_id.values()}))
    if len(waiting) >= TOGETHER:
        await write(records, gpus)


async def write(records: Records, gpus: Gpus) -> None:
    """Write the waiting seconds to the history file; an OSError is logged once and costs only these seconds."""
    waiting, gpus.watch_state.unwritten = gpus.watch_state.unwritten, []
    if not waiting:
        return
    try:
        await asyncio.to_thread(put, records, gpus, waiting)
        gpus.watch_state.history_trouble = ""
    except OSError as error:
        if not gpus.watch_state.history_trouble:
            log.warning("the history of the GPUs is not recorded: %s", error)
        gpus.watch_state.history_trouble = str(error)


async def close(records: Records, gpus: Gpus) -> None:
    """Write the seconds that are not written yet, and close the file."""
    await write(records, gpus)
    if gpus.watch_state.ring is not None:
        gpus.watch_state.ring.close()
        gpus.watch_state.ring = None


def put(records: Records, gpus: Gpus, waiting: list[tuple[int, dict[str, HistoryPoint]]]) -> None:
    """Write some seconds into a file with room for every GPU."""
    seen = {gpu for _, points in waiting for gpu in points}
    file = gpus.watch_state.ring
    if file is not None and len(seen | set(file.ids)) > file.slots:
        log.info("there are more GPUs than the history has room for: it begins anew")
        gpus.watch_state.ring = None
        with file.lock:
            file.close()
        file = None
    if file is None:
        file = gpus.watch_state.ring = history_ring.opened(records.config.home / "gpus.ring", len(seen))
    with file.lock:
        for second, points in waiting:
            file.write(second, points)


async def answer(records: Records, gpus: Gpus, request: GpuHistoryRequest, only: str) -> GpuHistoryReply:
    """Return the reply to `GET /v1/gpus/history`; `only` is the id of the one GPU that is wanted, or empty for all."""
    until = int(bounded_time(request.until) or time.time() + 1)
    since = int(bounded_time(request.since) or until - WINDOW_S)
    since = max(min(since, until), until - SECONDS)
    step_s = max(1, min(request.step_s, SECONDS), math.ceil((until - since) / MOST_STEPS))
    await write(records, gpus)
    file = gpus.watch_state.ring
    steps = await asyncio.to_thread(read, file, since, until, step_s) if file else []
    wanted = [only] if only else [gpu.id for gpu in sorted(gpus.by_id.values(), key=presenter.place)]
    return GpuHistoryReply(
        since=since, until=until, step_s=step_s, items=tuple(track(gpus, gpu, steps) for gpu in wanted)
    )


def bounded_time(seconds: float) -> float:
    """Limit a client's time to what a record can hold."""
    return seconds if 0 < seconds < 2**32 - SECONDS else 0.0


def read(file: HistoryRing, since: int, until: int, step_s: int) -> list[list[dict[str, HistoryPoint]]]:
    """Read the steps of a window; called in a thread, since a day is read from 20,000 places."""
    with file.lock:
        return list(file.steps(since, until, step_s)) if file.file >= 0 else []


def track(gpus: Gpus, gpu_id: str, steps: list[list[dict[str, HistoryPoint]]]) -> GpuTrack:
    """Return one GPU's steps: the last use and condition, the mean utilisation and power, the most memory and the
    highest temperature of each step."""
    points = [[seconds[gpu_id] for seconds in step if gpu_id in seconds] for step in steps]
    gpu = gpus.by_id.get(gpu_id)
    return GpuTrack(
        id=gpu_id,
        index=presenter.label(gpu).removeprefix("GPU ") if gpu else "",
        use=tuple(step[-1].use if step else "" for step in points),
        condition=tuple(step[-1].condition if step else "" for step in points),
        utilisation=tuple(mean([p.utilisation for p in step], 3) for step in points),
        memory_used_bytes=tuple(most([p.memory_used_bytes for p in step]) for step in points),
        power_w=tuple(mean([p.power_w for p in step], 0) for step in points),
        temperature_c=tuple(most([p.temperature_c for p in step]) for step in points),
    )


def mean(values: list[float | None], digits: int) -> float | None:
    """Return the mean of the values that are not None, rounded; None if there are none."""
    known = [value for value in values if value is not None]
    return round(fmean(known), digits) if known else None


def most(values: Iterable[Number | None]) -> Number | None:
    """Return the largest value that is not None; None if there are none."""
    return max((value for value in values if value is not None), default=None)
