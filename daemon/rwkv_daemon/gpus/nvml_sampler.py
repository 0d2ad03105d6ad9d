"""The process that asks NVML. One line of JSON (a Snapshot) a second on stdout.

A call can hang inside the driver for ever. So before each question a line `?WHAT` on stderr says whom it goes to:
`driver`, `events`, or the index of a GPU. Whoever starts it need not read that until a snapshot is late, and then knows
what to leave out next time (`--skip`).

It ends by itself when the daemon does (its stdin closes).
"""

import argparse
import os
import select
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from rwkv_daemon.gpus.nvml_card import Card
from rwkv_daemon.gpus.sampler_exits import DRIVER_GONE, NO_NVML
from rwkv_daemon.gpus.xid_events import KERNEL_LOG, XidEvents
from rwkv_daemon.rules.gpu_facts import GpuReading, GpuSnapshot

PERIOD_S: Final = 1.0
THOROUGH_EVERY: Final = 10
"""Samples between two readings of a card's health; cards take turns."""
STDOUT, STDERR = 1, 2


def main(words: list[str]) -> int:
    """Run until stdin closes; returns the exit code."""
    parser = argparse.ArgumentParser(prog="sampler")
    parser.add_argument("--skip", default="", help="indices that are not asked, separated by commas; or `events`")
    parser.add_argument("--only", type=int, default=-1, help="look once at this index alone, and end")
    parser.add_argument("--kernel-log", type=Path, default=KERNEL_LOG, help="where the kernel names the pid of an XID")
    given = parser.parse_args(words)
    try:
        import pynvml
    except ImportError:
        return NO_NVML
    announce("driver")
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded, pynvml.NVMLError_FunctionNotFound):
        return NO_NVML
    except pynvml.NVMLError:
        return DRIVER_GONE
    skip = set(filter(None, given.skip.split(",")))
    events = None if given.only >= 0 or "events" in skip else XidEvents(pynvml, given.kernel_log)
    sampler = NvmlSampler(pynvml, skip, events, given.only)
    return sampler.once() if given.only >= 0 else sampler.run()


def announce(what: str) -> None:
    """Write what is asked next, unbuffered."""
    os.write(STDERR, b"?%s\n" % what.encode())


class NvmlSampler:
    """Samples every card again and again."""

    def __init__(self, nvml: Any, skip: set[str], events: XidEvents | None, only: int) -> None:
        self.nvml, self.skip, self.events, self.only = nvml, skip, events, only
        self.cards: dict[str, Card] = {}
        self.looks = 0
        self.driver = ""

    def run(self) -> int:
        """Write one snapshot a second, by the clock, until stdin closes or the driver stops answering."""
        due = time.monotonic()
        while True:
            try:
                snapshot = self.look()
            except self.nvml.NVMLError:  # even the number of cards cannot be asked
                return DRIVER_GONE
            self.write(snapshot)
            if snapshot.readings and all(one.trouble and not one.mig for one in snapshot.readings):
                return DRIVER_GONE
            due = max(due + PERIOD_S, time.monotonic())
            if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
                return 0

    def once(self) -> int:
        """Write a single snapshot to stdout; return the exit code, `DRIVER_GONE` if NVML does not answer."""
        try:
            self.write(self.look())
        except self.nvml.NVMLError:
            return DRIVER_GONE
        return 0

    def write(self, snapshot: GpuSnapshot) -> None:
        """Write a snapshot as one line, completely, however little the pipe takes at a time."""
        line = msgspec.json.encode(snapshot) + b"\n"
        while line:
            line = line[os.write(STDOUT, line) :]

    def look(self) -> GpuSnapshot:
        """Sample every card that is not skipped. Raises NVMLError if the driver does not even count them."""
        announce("driver")
        count = self.nvml.nvmlDeviceGetCount()
        self.driver = self.driver or self.nvml.nvmlSystemGetDriverVersion()
        left_out = tuple(index for index in range(count) if str(index) in self.skip)
        asked = [self.only] if self.only >= 0 else [index for index in range(count) if index not in left_out]
        readings: list[GpuReading] = []
        for index in asked:
            announce(str(index))
            readings += self.look_at(index)
        self.looks += 1
        return GpuSnapshot(readings=tuple(self.with_events(readings)), driver=self.driver, left_out=left_out)

    def look_at(self, index: int) -> list[GpuReading]:
        """Sample the card at an index; another card may be there by now."""
        nvml = self.nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            card = self.cards.get(uuid)
            if card is None or card.index != index:
                card = self.cards[uuid] = Card(nvml, handle, index, uuid)
            card.handle = handle
            if self.events:
                self.events.register(card)
            return list(card.look(thorough=(self.looks + index) % THOROUGH_EVERY == 0))
        except nvml.NVMLError_GpuIsLost:
            return [GpuReading(id=f"gpu-index-{index}", index=index, lost=True, trouble="it has fallen off the bus")]
        except nvml.NVMLError as error:
            return [GpuReading(id=f"gpu-index-{index}", index=index, trouble=f"the driver says: {error}")]

    def with_events(self, readings: list[GpuReading]) -> list[GpuReading]:
        """Return the readings with the XIDs of their cards."""
        if self.events is None:
            return readings
        announce("events")
        found = self.events.take()
        if not found:
            return readings
        return [msgspec.structs.replace(r, xids=tuple(found.get(r.parent or r.id, ()))) for r in readings]
