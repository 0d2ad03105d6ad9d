"""Starting workers behind the shim, adopting them after a restart, and stopping them for certain.

A worker is never identified by its pid alone: boot id, start time, the marker in its environment, and a pidfd that is
opened between two checks of the start time. A process that cannot be identified so is not ours.
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

from rwkv_daemon.rules.shim_record import ShimRecord

SHIM: Final = Path(__file__).with_name("shim.py")
MARKER: Final = "RWKVCTL_ATTEMPT"
RECORD_TIMEOUT_S: Final = 10.0
LOCK_HELD: Final = 75
"""Exit code of the shim if a lock is held by another process (`shim.py` documents it)."""


class NotStartedError(Exception):
    """The shim wrote no record in time; the message says what it did instead."""


class LockHeldError(NotStartedError):
    """The shim could not take one of its locks: nothing was started."""


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
        forget_torn(self.record_path)
        final = read_record(self.record_path)
        return final if final is not None and final.done else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start one worker. `locks` are files the shim locks for the worker's life, `share` one that it locks
    together with others; `log_cap_bytes` is what its log may take on the disk (0: no limit)."""

    uuid: str
    argv: tuple[str, ...]
    record: Path
    log: Path
    environment: dict[str, str]
    locks: tuple[Path, ...] = ()
    share: Path | None = None
    cgroup: Path | None = None
    log_cap_bytes: int = 0

    @property
    def options(self) -> Iterator[str]:
        """Yield the options of the shim's command line; those without a value are left out."""
        locks = "\n".join(map(str, self.locks))
        given = (
            ("--lock", locks),
            ("--share", self.share),
            ("--cgroup", self.cgroup),
            ("--log-cap", self.log_cap_bytes),
        )
        for name, value in given:
            if value:
                yield from (name, str(value))


def start(launch: Launch) -> Worker:
    """Start a worker behind a shim and wait for its record (about 50 ms). Raises NotStartedError."""
    launch.record.unlink(missing_ok=True)
    shim = (sys.executable, "-I", "-S", str(SHIM), str(launch.record), str(launch.log))
    argv = [*shim, *launch.options, "--", *launch.argv]
    environment = launch.environment | {MARKER: launch.uuid, "SPT_NOENV": "1"}
    log = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        popen = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    finally:
        os.close(log)
    pidfd = os.pidfd_open(popen.pid)  # before the process can be reaped: afterwards the number may be reused
    try:
        return Worker(launch.uuid, launch.record, first_record(launch, popen), pidfd, popen)
    except BaseException:
        os.close(pidfd)
        raise


def first_record(launch: Launch, popen: subprocess.Popen[bytes]) -> ShimRecord:
    """Return the record that the shim writes when it has started its worker. Raises NotStartedError."""
    deadline = time.monotonic() + RECORD_TIMEOUT_S
    while True:
        ended = popen.poll()  # before the record is read: a shim that has ended has written all it ever will
        if (record := read_record(launch.record)) is not None:
            return record
        if ended == LOCK_HELD:
            raise LockHeldError("somebody else holds its lease")
        if ended is not None:
            raise NotStartedError(f"the shim ended with code {ended} before starting {launch.argv[0]}")
        if time.monotonic() > deadline:
            popen.kill()
            popen.wait()
            raise NotStartedError(f"no record of {launch.argv[0]} after {RECORD_TIMEOUT_S:.0f} s")
        time.sleep(0.002)


def adopt(uuid: str, record_path: Path) -> Worker | None:
    """Return a worker that an earlier daemon started. None if it has ended or cannot be identified as ours."""
    record = read_record(record_path)
    if record is None or record.boot_id != boot_id():
        forget_torn(record_path)
        return None
    if not is_same(record.shim, record.shim_start) or not belongs(record.shim, uuid) or not writes(record, record_path):
        forget_torn(record_path)
        return None
    try:
        pidfd = os.pidfd_open(record.shim)
    except OSError:
        return None
    if not is_same(record.shim, record.shim_start):
        os.close(pidfd)
        return None
    return Worker(uuid, record_path, record, pidfd)


def writes(record: ShimRecord, path: Path) -> bool:
    """Whether the shim was started with that very record file: in a copy of a home the records name workers of the
    original, which another daemon runs."""
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{record.shim}/cmdline").read_bytes().split(b"\0")[1:]:
            if word.endswith(os.fsencode(path.name)):
                return Path(os.fsdecode(word)).resolve() == path.resolve()
    return False


def forget_torn(path: Path) -> None:
    """Remove the temporary file of a shim that was killed while it wrote its record."""
    path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)


def read_record(path: Path) -> ShimRecord | None:
    """Return the shim's record, or None if there is none (yet) or it is unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ShimRecord)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def boot_id() -> str:
    """Return the kernel's boot id; it changes with every boot, so a record from before names no process."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_same(pid: int, ticks: int) -> bool:
    """Whether `pid` is alive (not a zombie) and was started at that tick."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) == ticks and fields[0] != b"Z"
    return False


def marker_of(pid: int) -> str:
    """Return the attempt a process belongs to, from its environment; empty if it has none or may not be read."""
    prefix = f"{MARKER}=".encode()
    for pair in environment_of(pid).split(b"\0"):
        if pair.startswith(prefix):
            return pair.removeprefix(prefix).decode(errors="replace")
    return ""


def environment_of(pid: int) -> bytes:
    """Return /proc/PID/environ; if the first thread has ended and others live, it can only be read from one of them."""
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
    """Yield every living process of ours that carries the marker, also those that left the process group."""
    return (pid for pid in everybody() if belongs(pid, uuid))


def belongs(pid: int, uuid: str) -> bool:
    """Whether a process carries the marker and runs as our user: anybody may put the marker into their own environment,
    and root can read it there."""
    return marker_of(pid) == uuid and runs_as_us(pid)


def runs_as_us(pid: int) -> bool:
    """Whether its real, effective and saved user is ours."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().split(b"\n"):
            if line.startswith(b"Uid:"):
                return {int(uid) for uid in line.split()[1:4]} == {os.geteuid()}
    return False


def ask_to_stop(worker: Worker) -> None:
    """Send SIGTERM through the shim, which forwards it to the worker's process group."""
    send(worker.pidfd, signal.SIGTERM)


def kill_group(worker: Worker) -> int:
    """SIGKILL the worker's process group. Its number and its session's cannot be reused while the shim, which leads
    that session, lives: so each member is held by a pidfd and checked again, and no group is ever signalled by
    number."""
    hit = 0
    for pid in everybody():
        if group_of(pid) == (worker.pid, worker.record.shim):
            with contextlib.suppress(ProcessLookupError), closing_pidfd(pid) as descriptor:
                if group_of(pid) == (worker.pid, worker.record.shim):
                    hit += send(descriptor, signal.SIGKILL)
    return hit


def kill_session(leader: int) -> None:
    """SIGKILL what is left of a session that we began and whose leader has ended. Its number stays taken as long as
    anybody is in it; if there is a process of that number again, the session is another one."""
    for pid in everybody():
        if group_of(pid)[1] == leader:
            with contextlib.suppress(ProcessLookupError), closing_pidfd(pid) as descriptor:
                if group_of(pid)[1] == leader and not Path(f"/proc/{leader}").exists():
                    send(descriptor, signal.SIGKILL)


def group_of(pid: int) -> tuple[int, int]:
    """Return (process group, session) of a process; (0, 0) if it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[2]), int(fields[3])
    return 0, 0


def everybody() -> Iterator[int]:
    """Yield the pids of all processes that /proc shows."""
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


@contextlib.contextmanager
def closing_pidfd(pid: int) -> Iterator[int]:
    """Yield a pidfd, closed after the block. Raises ProcessLookupError."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def kill(worker: Worker) -> int:
    """SIGKILL everything that carries the worker's marker except its shim, which is left to write the exit record."""
    return sweep(worker.uuid, spare=worker.record.shim)


def end_orphans(worker: Worker) -> None:
    """Kill what a worker left behind when it ended: its shim waits for it, and so would the job."""
    record = read_record(worker.record_path)
    if record is not None and record.done:
        sweep(worker.uuid, spare=worker.record.shim)


def end_all(runs: Path) -> None:
    """SIGKILL every worker of a runs folder that still runs."""
    for folder in (*runs.glob("engines/*"), *runs.glob("j*")):
        end_in(folder)


def end_in(folder: Path) -> None:
    """SIGKILL every worker that the records in one run directory name and that still runs there."""
    for path in folder.glob("record*.json"):
        record = read_record(path)
        if record is None or record.done or record.boot_id != boot_id() or not is_same(record.shim, record.shim_start):
            continue
        if writes(record, path) and (uuid := marker_of(record.shim)):
            sweep(uuid)


def sweep(uuid: str, *, spare: int = 0) -> int:
    """SIGKILL whatever carries the marker; returns how many processes were hit."""
    return sum(kill_member(pid, uuid) for pid in members(uuid) if pid != spare)


def kill_member(pid: int, uuid: str) -> bool:
    """SIGKILL one process through a pidfd, after checking its marker again; returns whether it was hit."""
    with contextlib.suppress(ProcessLookupError), closing_pidfd(pid) as descriptor:
        return belongs(pid, uuid) and send(descriptor, signal.SIGKILL)
    return False


STATES: Final = {
    "R": "running", "S": "sleeping", "D": "in the kernel, cannot be interrupted", "T": "stopped by a signal",
    "t": "stopped by a debugger", "Z": "dead, not reaped by its parent",
}  # fmt: skip


def state_of(pid: int) -> str:
    """Return the state of a process in words; `gone` if there is none."""
    with contextlib.suppress(OSError, IndexError):
        letter = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
        return STATES.get(letter, letter)
    return "gone"


def send(pidfd: int, number: signal.Signals) -> bool:
    """Signal through a pidfd: never by number, so never the wrong process. Returns False if it is gone."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError as error:
        if error.errno != errno.ESRCH:
            raise
        return False
    return True


def has_ended(worker: Worker) -> bool:
    """Whether the shim's pidfd is readable: worker and all its descendants are gone."""
    poll = select.poll()
    poll.register(worker.pidfd, select.POLLIN)
    return bool(poll.poll(0))
