"""Jobs without progress: noticed by what does not change, their stacks kept, and then ended, so that they start again.

Two signs for each runner. It touches a file twice a second, from its main loop: a runner that is stopped or hangs does
not. And there must be results: a sample, a completion, or at least tokens on its engine. Both are compared with their
earlier values, never with the wall clock, which may jump.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.worker_process import Worker

DUMP_S: Final = 2.0
"""How long a worker has to write its stacks."""
MOST_TEXT: Final = 20_000


@dataclass(slots=True)
class LastChange:
    """When a value last changed, by the monotonic clock. None: it was never there."""

    value: int | None = None
    at: float = field(default_factory=time.monotonic)

    def see(self, value: int | None, clock: float) -> None:
        if value != self.value:
            self.value, self.at = value, clock


@dataclass(slots=True)
class Motion:
    """What was seen to change of one runner: the touched file (`beat`) and its results (`progress`)."""

    beat: LastChange = field(default_factory=LastChange)
    progress: LastChange = field(default_factory=LastChange)

    def reset(self, clock: float) -> None:
        """Start both anew, as it has a good reason for no progress: no engine, or it is to end."""
        self.progress.at = self.beat.at = clock


def verdict(motion: Motion, clock: float, stall_s: float) -> str:
    """Return why a runner counts as stalled; empty if it does not. A runner of an older version has no beat."""
    if motion.beat.value is not None and clock - motion.beat.at > stall_s:
        return f"its process has not turned for {clock - motion.beat.at:.0f} s"
    if clock - motion.progress.at > stall_s:
        return f"no token and no sample for {clock - motion.progress.at:.0f} s"
    return ""


def beat_of(path: Path) -> int | None:
    """Return the change time of the runner's file in ns; None if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def dump(worker: Worker, log: Path) -> str:
    """Return where a worker stands: the kernel's view of each thread, and the Python stacks that it writes into its log
    on request. May take DUMP_S; ends nothing."""
    text = kernel_view(worker.record.pid)
    if not worker_process.is_same(worker.record.pid, worker.record.pid_start) or not catches(worker.record.pid):
        return text
    before = size_of(log)
    with contextlib.suppress(ProcessLookupError), worker_process.closing_pidfd(worker.record.pid) as descriptor:
        if worker_process.is_same(worker.record.pid, worker.record.pid_start):
            worker_process.send(descriptor, signal.SIGUSR1)
    return f"{text}{grown(log, before)}"[:MOST_TEXT]


def kernel_view(pid: int) -> str:
    """Return one line per thread: its name, its state, and what it waits for."""
    lines = []
    with contextlib.suppress(OSError):
        for thread in sorted(Path(f"/proc/{pid}/task").iterdir()):
            name, waits = (first_line(thread / file) for file in ("comm", "wchan"))
            lines.append(f"thread {thread.name} {name}: {worker_process.state_of(int(thread.name))}, in {waits or '?'}")
    return "\n".join(lines) + "\n"


def first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return ""


def catches(pid: int) -> bool:
    """Whether a process has a handler for SIGUSR1; without one the signal would end it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().split(b"\n"):
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def grown(log: Path, before: int) -> str:
    """Return what was added to a log, once it stops growing; empty if nothing is added."""
    deadline, size = time.monotonic() + DUMP_S, before
    while time.monotonic() < deadline and (size == before or size != size_of(log)):
        size = size_of(log)
        time.sleep(0.1)
    with contextlib.suppress(OSError), log.open("rb") as file:
        os.lseek(file.fileno(), before, os.SEEK_SET)
        return file.read(MOST_TEXT).decode(errors="replace")
    return ""
