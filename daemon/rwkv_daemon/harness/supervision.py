"""A command of a harness at work: started in its enclosure, its output passed on, and ended when it is to end."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from rwkv_daemon.harness.enclosure import EnclosurePlan
from rwkv_daemon.harness.manifest import Manifest
from rwkv_daemon.harness.relay import EngineRelay
from rwkv_daemon.rules import exit_codes
from rwkv_daemon.workers.run_directory import RunDir
from rwkvctl.settings.module_command import module_command

LOOK_S: Final = 0.5
ENDED_S: Final = 0.05
GRACE_S: Final = 10.0
"""After so long a harness that was asked to end is killed."""
LAST_WORDS_S: Final = 1.0
"""Once a harness has ended its output is read for so long: a process that it left behind may hold the pipe."""
READ_BYTES: Final = 64 * 1024
PROGRESS_S: Final = 5.0
PROGRESS: Final = re.compile(r"\d+%\||it/s\]|s/it\]")
"""A line of a progress bar, which is nobody's last words."""
T = TypeVar("T")


class EndedError(Exception):
    """The attempt is over: with which exit code, and the last line of its log."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(slots=True)
class Activity:
    """What was seen of a harness: when it began and when it last wrote or asked something (monotonic), the last whole
    line that it wrote, and the beginning of the next one."""

    begun: float = field(default_factory=time.monotonic)
    at: float = field(default_factory=time.monotonic)
    requests: int = 0
    line: str = ""
    rest: str = ""

    @property
    def last_words(self) -> str:
        """The last line that it wrote, even one that it has not ended."""
        return self.rest.strip() if is_said(self.rest) else self.line

    def asked(self, requests: int, waiting: int) -> None:
        """Note how many requests were answered so far, and how many wait: a harness that waits is not silent."""
        if waiting or requests != self.requests:
            self.requests, self.at = requests, time.monotonic()

    def wrote(self, text: str) -> None:
        self.at = time.monotonic()
        *lines, rest = (self.rest + text).replace("\r", "\n").split("\n")
        self.line = next((line.strip() for line in reversed(lines) if is_said(line)), self.line)
        self.rest = rest[-READ_BYTES:]


def is_said(line: str) -> bool:
    """Whether a line is words, and not blank or a progress bar."""
    return bool(line.strip()) and not PROGRESS.search(line)


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Runs the commands of one attempt, and shows the daemon that the attempt is alive. `stop` is set once it is to
    stop."""

    folder: RunDir
    attempt: int
    limits: Manifest
    relay: EngineRelay
    stop: asyncio.Event

    async def run(self, plan: EnclosurePlan) -> tuple[int, str]:
        """Run a command until it ends; returns its exit code and its last words. Raises EndedError if it is stopped, or
        takes too long."""
        file = self.folder.path / f"harness-{self.attempt}" / "plan.json"
        say(f"runs {' '.join(plan.argv)}")
        with readable_once(file, msgspec.json.encode(plan)):
            process = await asyncio.create_subprocess_exec(
                *module_command("rwkv_daemon.harness.enclosure", str(file)), stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            activity = Activity()
            reading = asyncio.ensure_future(passed_on(process, activity))
            try:
                while process.returncode is None:
                    traffic = self.relay.traffic
                    activity.asked(traffic.requests + traffic.tokenized, self.relay.waiting)
                    self.look()
                    check_time(self.limits, activity)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            await process.wait()
            finally:
                await end(process)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS_S):
                        await reading
                reading.cancel()
        return process.returncode, activity.last_words

    def look(self) -> None:
        """Show the daemon that this attempt is alive, and what it has asked. Raises EndedError if it is to end."""
        traffic = self.relay.traffic
        self.folder.alive(self.attempt).write_text(f"{traffic.requests} {traffic.tokenized}", encoding="ascii")
        desired = self.folder.read_desired()
        if self.stop.is_set() or desired == "stop":
            raise EndedError(exit_codes.STOPPED, "stopped")
        if desired == "pause":
            raise EndedError(exit_codes.PAUSED, "paused")


@contextlib.contextmanager
def readable_once(file: Path, content: bytes) -> Iterator[None]:
    """Keep a file, which holds the token of the run, within the block."""
    file.touch(mode=0o600)
    file.write_bytes(content)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def check_time(limits: Manifest, activity: Activity) -> None:
    """Raise EndedError for a command that takes too long."""
    clock = time.monotonic()
    if clock - activity.begun > limits.wall_s:
        raise EndedError(exit_codes.OUT_OF_TIME, f"timeout: the harness has run for its wall_s = {limits.wall_s:g} s")
    if clock - activity.at > limits.silence_s:
        quiet = f"the harness wrote and asked nothing for its silence_s = {limits.silence_s:g} s"
        raise EndedError(exit_codes.OUT_OF_TIME, f"timeout: {quiet}")


async def while_alive(folder: RunDir, attempt: int, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, and show the daemon meanwhile that this process is alive."""
    working = asyncio.ensure_future(work)
    while not working.done():
        folder.alive(attempt).touch()
        await asyncio.wait({working}, timeout=LOOK_S)
    return working.result()


async def passed_on(process: asyncio.subprocess.Process, activity: Activity) -> None:
    """Write what the harness says into this program's log; of what it writes over itself, such as a progress bar, a
    line now and then."""
    assert process.stdout is not None
    rest, told_at = b"", 0.0
    while data := await process.stdout.read(READ_BYTES):
        activity.wrote(data.decode(errors="replace"))
        *lines, rest = (rest + data).split(b"\n")
        written = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in lines]
        rest = rest.rstrip(b"\r").rpartition(b"\r")[2] + rest[len(rest.rstrip(b"\r")) :]
        if rest.strip() and time.monotonic() - told_at > PROGRESS_S:
            written, told_at = [*written, rest.strip(b"\r")], time.monotonic()
        sys.stderr.buffer.write(b"".join(line + b"\n" for line in written))
        sys.stderr.buffer.flush()
    if rest.strip():
        sys.stderr.buffer.write(rest.strip(b"\r") + b"\n")
        sys.stderr.buffer.flush()


async def end(process: asyncio.subprocess.Process) -> None:
    """End the harness with its whole session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while process.returncode is None:  # wait() waits for whoever holds the pipe, too
                    await asyncio.sleep(ENDED_S)
                return


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T:
    """Return the result of some work. Raises EndedError if this attempt is asked to end before."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise EndedError(exit_codes.STOPPED, "stopped")
        return working.result()
    finally:
        working.cancel()
        stopping.cancel()


def say(text: str) -> None:
    """Write a line to standard error, which is the attempt's log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
