"""Time work on a device, and several contenders in turn over many rounds."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

ROUNDS = 10


class Spread(NamedTuple):
    """Median, lowest and highest value of `rounds` rounds."""

    median: float
    low: float
    high: float
    rounds: int

    def of(self, count: float) -> "Spread":
        """Return rates from times, for `count` units in each."""
        return Spread(count / self.median, count / self.high, count / self.low, self.rounds)


def spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


def wait(device: torch.device) -> None:
    """Wait until the device has finished all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_s(device: torch.device, work: Callable[[], object], times: int) -> float:
    """Return the seconds of one piece of work, repeated `times` times; by the device's own clock where it has one."""
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
    """Run every contender in turn, `rounds` times and, if those are several, once before to warm up. Each returns its
    seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + (rounds > 1)):
        for name, contender in contenders.items():
            spent = contender()
            if number or rounds == 1:
                seconds[name].append(spent)
    return {name: spread(values) for name, values in seconds.items()}
