"""Figures about a running engine: token rates, resident memory, and the liveness file for the supervisor."""

import mmap
import os
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

WINDOW_S = 5.0
SAMPLE_EVERY_S = 0.1
LIVENESS_BYTES = 16


@dataclass(slots=True)
class Rates:
    """Tokens a second over the last five seconds, from running totals."""

    _samples: deque[tuple[float, int, int]] = field(default_factory=deque)

    def note(self, now_s: float, prefill: int, decode: int) -> None:
        """Record the totals; at most ten records a second are held."""
        if self._samples and now_s - self._samples[-1][0] < SAMPLE_EVERY_S:
            return
        self._samples.append((now_s, prefill, decode))
        while now_s - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()

    def per_second(self, now_s: float, prefill: int, decode: int) -> tuple[float, float]:
        """Return (prefill, decode) tokens a second up to now."""
        recent = [sample for sample in self._samples.copy() if now_s - sample[0] <= WINDOW_S]
        if not recent or now_s <= recent[0][0]:
            return 0.0, 0.0
        first_s, first_prefill, first_decode = recent[0]
        span_s = now_s - first_s
        return (prefill - first_prefill) / span_s, (decode - first_decode) / span_s


class Liveness:
    """A mapped file of two little-endian 64-bit numbers: a counter that moves with every step and once a second when
    idle, and the monotonic clock in nanoseconds at that moment. A supervisor reads it without asking the process."""

    def __init__(self, path: Path | None) -> None:
        self._map: mmap.mmap | None = None
        self._count = 0
        if path is not None:
            path.write_bytes(bytes(LIVENESS_BYTES))
            with path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), LIVENESS_BYTES)

    def beat(self) -> None:
        self._count += 1
        if self._map is not None:
            self._map[:] = struct.pack("<QQ", self._count, time.monotonic_ns())


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
