"""Seconds of work on a device, and what many rounds of several contenders in turn say about them."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

ROUNDS = 10


class Spread(NamedTuple):
    """Of so many rounds."""

    median: float
    low: float
    high: float
    rounds: int

    def of(self, count: float) -> "Spread":
        """Times become rates: `count` of something in each."""
        return Spread(count / self.median, count / self.high, count / self.low, self.rounds)


def spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


def wait(device: torch.device) -> None:
    """Until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_s(device: torch.device, work: Callable[[], object], times: int) -> float:
    """Seconds of one piece of work, done so many times on end; by the device's own clock where it has one."""
    wait(device)
    if device.type != "cuda":
        began = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - began) / times
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000 / times


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, Spread]:
    """Every contender in turn, `rounds` times and, where those are several, once before them to warm up. Each gives
    seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + (rounds > 1)):
        for name, contender in contenders.items():
            spent = contender()
            if number or rounds == 1:
                seconds[name].append(spent)
    return {name: spread(values) for name, values in seconds.items()}
