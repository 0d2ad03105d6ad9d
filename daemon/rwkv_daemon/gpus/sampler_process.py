"""The daemon's side of the sampler process: start it, read it with a deadline, replace it, skip GPUs that hang.

A sampler that is stuck inside the driver cannot be killed. It is abandoned, and only a few may be left so. One that
hangs and can be killed ends with the daemon, as it does not notice that its stdin has closed.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from rwkv_daemon.gpus.sampler_exits import NO_NVML
from rwkv_daemon.gpus.watch_state import WatchState
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.gpu_facts import GpuSnapshot
from rwkv_daemon.workers import tied_process
from rwkvctl.settings import config

MOST_STUCK: Final = 3
LONGEST_LINE: Final = 4 * 2**20
LATE_S: Final = 2.0
START_S: Final = 30.0
"""A process that has asked the driver nothing yet may take so long: on a node under load it is slow to begin, and the
driver is not to blame."""
CHECK_S: Final = 0.25
"""Once a snapshot is late, its announcements are read at this interval."""
PIPE_BYTES: Final = 65536

decoder: Final = msgspec.json.Decoder(GpuSnapshot)


@dataclass(frozen=True, slots=True)
class SamplerEnd:
    """How a sampler ended: there is no NVML, it ended by itself, it hung while asking `asked`, its output was invalid,
    or it could not be started."""

    how: Literal["no-nvml", "ended", "hung", "nonsense", "not-started"]
    asked: str = ""
    detail: str = ""


@dataclass(slots=True)
class SamplerProcess:
    """One sampler process. `asks` is the pipe on which it announces what it asks: read when a snapshot is late, and
    emptied with each one, so that the daemon is not woken for it. `asked` is the last announcement, and `begun` says
    whether there was one."""

    process: asyncio.subprocess.Process
    asks: int
    deadline_s: float
    asked: str = "driver"
    begun: bool = False

    async def line(self) -> bytes:
        """Return the next snapshot as a line; empty at the end. Raises TimeoutError if nothing new was asked for as
        long as the deadline, ValueError for a line that is too long."""
        assert self.process.stdout is not None
        progress, late = time.monotonic(), False
        while True:
            try:
                async with asyncio.timeout(CHECK_S if late else min(LATE_S, self.deadline_s)):
                    line = await self.process.stdout.readline()
            except TimeoutError:
                late = True
                if self.heard():
                    progress = time.monotonic()
                elif time.monotonic() - progress > (self.deadline_s if self.begun else START_S):
                    raise
                continue
            self.heard()
            return line

    def heard(self) -> bool:
        """Whether it has asked anything since the last time; other output is logged."""
        found = False
        with contextlib.suppress(BlockingIOError):
            while text := os.read(self.asks, PIPE_BYTES):
                for line in text.decode(errors="replace").split("\n"):
                    if line.startswith("?"):
                        self.asked, self.begun, found = line[1:], True, True
                    elif line.strip():
                        log.warning("GPU sampler: %s", line)
        return found

    async def end(self, watch_state: WatchState) -> None:
        """Kill it; if it cannot be killed, it is abandoned."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        try:
            async with asyncio.timeout(1.0):
                await self.process.wait()
        except TimeoutError:
            log.error("a GPU sampler (pid %d) is stuck in the driver and is left there", self.process.pid)
            watch_state.stuck.append(self.process)
        os.close(self.asks)


@contextlib.asynccontextmanager
async def started(watch_state: WatchState, deadline_s: float, *options: str) -> AsyncIterator[SamplerProcess]:
    """Run a sampler within the block. Raises OSError if no process can be started."""
    if devices := config.marker("RWKVCTL_TEST_DEV"):
        options = (*options, "--kernel-log", f"{devices}/kmsg")
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        os.set_blocking(reading, False)
        process = await asyncio.create_subprocess_exec(
            *tied_process.command("rwkv_daemon.gpus.sampler_main"), *options, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=writing, env=config.base_environment(), limit=LONGEST_LINE,
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    sampler = SamplerProcess(process, reading, deadline_s)
    try:
        yield sampler
    finally:
        await sampler.end(watch_state)


async def snapshots(sampler: SamplerProcess) -> AsyncIterator[GpuSnapshot]:
    """Yield its snapshots until it ends. Raises TimeoutError if it hangs, ValueError if its output is invalid."""
    while line := await sampler.line():
        yield decoder.decode(line)


async def ending(sampler: SamplerProcess) -> SamplerEnd:
    """Return how a sampler ended whose output is closed."""
    code = await sampler.process.wait()
    if code == NO_NVML:
        return SamplerEnd("no-nvml")
    return SamplerEnd("ended", sampler.asked, f"code {code}")


def too_many_stuck(watch_state: WatchState) -> bool:
    """Whether so many samplers are stuck in the driver that no further one is started."""
    watch_state.stuck = [process for process in watch_state.stuck if process.returncode is None]
    return len(watch_state.stuck) >= MOST_STUCK


async def answers(watch_state: WatchState, index: str, deadline_s: float) -> bool:
    """Whether the driver answers about one GPU again, asked by a separate process, which may hang."""
    with contextlib.suppress(TimeoutError, ValueError, OSError):
        async with started(watch_state, deadline_s, "--only", index) as sampler:
            line = await sampler.line()
            return bool(line) and bool(decoder.decode(line).readings)
    return False
