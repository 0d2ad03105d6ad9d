"""Starting workers behind the shim, finding them again after a restart, and stopping them for certain.

A worker is never identified by its pid alone: boot id, start time, the marker in its environment, and a pidfd that is
opened between two looks at the start time. A process that cannot be identified so is not ours.
"""

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

SHIM: Final = Path(__file__).with_name("shim.py")
MARKER: Final = "RWKVCTL_ATTEMPT"
RECORD_TIMEOUT_S: Final = 10.0


class ShimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the shim writes: the identity before the worker starts, the exit after it ended."""

    shim: int
    shim_start: int
    pid: int
    pid_start: int
    boot_id: str
    done: bool = False
    code: int | None = None
    signal: int | None = None
    max_rss_kib: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    wall_s: float = 0.0


class NotStartedError(Exception):
    """The shim wrote no record in time, or could not take its lock; the message says which."""


@dataclass(slots=True)
class Worker:
    """A running attempt: its shim's pidfd becomes readable when shim and worker have ended."""

    uuid: str
    record_path: Path
    record: ShimRecord
    pidfd: int
    popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self.record.pid

    def close(self) -> ShimRecord | None:
        """Release the handle after the end; returns the exit record, or None if the worker was lost."""
        if self.popen is not None:
            self.popen.wait()
        os.close(self.pidfd)
        final = read_record(self.record_path)
        return final if final is not None and final.done else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start one worker. `lock` is a file the shim locks for the worker's life."""

    uuid: str
    argv: tuple[str, ...]
    record: Path
    log: Path
    environment: dict[str, str]
    lock: Path | None = None


def start(launch: Launch) -> Worker:
    """Start a worker behind a shim and wait for its record (about 50 ms). Raises NotStartedError."""
    launch.record.unlink(missing_ok=True)
    options = ["--lock", str(launch.lock)] if launch.lock else []
    argv = [sys.executable, "-I", "-S", str(SHIM), str(launch.record), str(launch.log), *options, "--", *launch.argv]
    environment = launch.environment | {MARKER: launch.uuid, "SPT_NOENV": "1"}
    log = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        popen = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    finally:
        os.close(log)
    deadline = time.monotonic() + RECORD_TIMEOUT_S
    while (record := read_record(launch.record)) is None:
        if popen.poll() is not None:
            raise NotStartedError(f"the shim ended with code {popen.returncode} before starting {launch.argv[0]}")
        if time.monotonic() > deadline:
            popen.kill()
            popen.wait()
            raise NotStartedError(f"no record of {launch.argv[0]} after {RECORD_TIMEOUT_S:.0f} s")
        time.sleep(0.002)
    return Worker(launch.uuid, launch.record, record, os.pidfd_open(popen.pid), popen)


def adopt(uuid: str, record_path: Path) -> Worker | None:
    """Find a worker that an earlier daemon started. None if it has ended or cannot be proved to be ours."""
    record = read_record(record_path)
    if record is None or record.boot_id != boot_id():
        return None
    if not is_same(record.shim, record.shim_start) or marker_of(record.shim) != uuid:
        return None
    try:
        pidfd = os.pidfd_open(record.shim)
    except OSError:
        return None
    if not is_same(record.shim, record.shim_start):
        os.close(pidfd)
        return None
    return Worker(uuid, record_path, record, pidfd)


def read_record(path: Path) -> ShimRecord | None:
    """The shim's record, or None if there is none (yet) or it is unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ShimRecord)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def boot_id() -> str:
    """Changes with every boot: a record from before names nobody."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_same(pid: int, ticks: int) -> bool:
    """Whether `pid` is alive (not a zombie) and was started at that tick."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) == ticks and fields[0] != b"Z"
    return False


def marker_of(pid: int) -> str:
    """The attempt a process belongs to, from its environment; empty if it has none or is not ours to read."""
    prefix = f"{MARKER}=".encode()
    for pair in environment_of(pid).split(b"\0"):
        if pair.startswith(prefix):
            return pair.removeprefix(prefix).decode(errors="replace")
    return ""


def environment_of(pid: int) -> bytes:
    """/proc/PID/environ; where the first thread has ended and others live, it can be read from one of them only."""
    process = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        if text := (process / "environ").read_bytes():
            return text
    with contextlib.suppress(OSError):
        for thread in (process / "task").iterdir():
            with contextlib.suppress(OSError):
                if text := (thread / "environ").read_bytes():
                    return text
    return b""


def members(uuid: str) -> Iterator[int]:
    """Every living process that carries the marker, escapees of the process group included."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and marker_of(int(entry.name)) == uuid:
            yield int(entry.name)


def ask_to_stop(worker: Worker) -> None:
    """SIGTERM through the shim, which passes it to the worker's process group."""
    send(worker.pidfd, signal.SIGTERM)


def kill(worker: Worker) -> int:
    """SIGKILL everything that carries the worker's marker but its shim, which is left to write the exit record."""
    return sweep(worker.uuid, spare=worker.record.shim)


def end_orphans(worker: Worker) -> None:
    """Kill what a worker left behind when it ended: its shim waits for it, and so would the job."""
    record = read_record(worker.record_path)
    if record is not None and record.done:
        sweep(worker.uuid, spare=worker.record.shim)


def end_all(runs: Path) -> None:
    """SIGKILL every worker that the records under a runs folder name and that still runs."""
    for path in (*runs.glob("engines/*/record.json"), *runs.glob("j*/record-*.json")):
        record = read_record(path)
        if record is None or record.done or record.boot_id != boot_id() or not is_same(record.shim, record.shim_start):
            continue
        if uuid := marker_of(record.shim):
            sweep(uuid)


def sweep(uuid: str, *, spare: int = 0) -> int:
    """SIGKILL whatever carries the marker, each through a pidfd checked again; returns how many were hit."""
    hit = 0
    for pid in members(uuid):
        if pid == spare:
            continue
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if marker_of(pid) == uuid:
                    hit += send(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)
    return hit


def send(pidfd: int, number: signal.Signals) -> bool:
    """Signal through a pidfd: never by number, so never the wrong process. False if it is gone."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError as error:
        if error.errno != errno.ESRCH:
            raise
        return False
    return True


def has_ended(worker: Worker) -> bool:
    """Whether the shim's pidfd is readable: worker and all that came of it are gone."""
    poll = select.poll()
    poll.register(worker.pidfd, select.POLLIN)
    return bool(poll.poll(0))
