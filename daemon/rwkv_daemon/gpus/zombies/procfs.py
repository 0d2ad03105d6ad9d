"""One process as /proc shows it at one moment: an immutable snapshot, from which its class is derived.

Nothing here signals or decides. What cannot be read (another user's executable, environment, files) is empty or None,
never guessed. The roots of /proc and /dev are parameters, so that tests can provide both.
"""

import contextlib
import errno
import os
import pwd
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rwkv_daemon.gpus.zombies.phrases import printable
from rwkv_daemon.workers.worker_process import MARKER
from rwkvctl.settings import config

TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
INIT_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the first PID namespace, the same on every Linux since 3.8 (PROC_PID_INIT_INO). /proc/1/ns/pid would tell
the same and can be read by root only."""

KERNEL_THREAD: Final = 0x00200000
LONGEST_COMMAND: Final = 300
DEPTH: Final = 64
"""How many parents are followed; no chain is so long, but /proc changes while it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """The fields of /proc/PID/stat that are used; one small read."""

    comm: str
    state: str
    parent: int
    session: int
    tty: int
    flags: int
    cpu_ticks: int
    start_ticks: int

    @classmethod
    def of(cls, text: bytes) -> "ProcessStat":
        """Parse the file. The name may hold blanks and brackets, so it ends at the last bracket. Raises ValueError."""
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        if len(fields) < 20:
            raise ValueError("not a line of /proc/PID/stat")
        return cls(
            comm=head.partition(b"(")[2].decode(errors="replace"),
            state=fields[0].decode(),
            parent=int(fields[1]),
            session=int(fields[3]),
            tty=int(fields[4]),
            flags=int(fields[6]),
            cpu_ticks=int(fields[11]) + int(fields[12]),
            start_ticks=int(fields[19]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """What must be equal at every later observation for it to be the same process with the same rights."""

    boot_id: str
    pid: int
    start_ticks: int
    uids: tuple[int, ...]
    exe: tuple[int, int] | None
    pid_namespace: int | None
    cgroups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSnapshot:
    """A snapshot of a process. `uids` are real, effective and saved. `tasks` are the states of its threads, read only
    if the first thread is dead or blocked. `tracer` is the pid of a debugger of it, of a parent or of a child (0:
    none)."""

    pid: int
    stat: ProcessStat
    boot_id: str = ""
    uids: tuple[int, ...] = ()
    user: str = ""
    exe: str = ""
    exe_id: tuple[int, int] | None = None
    command: str = ""
    cgroups: tuple[str, ...] = ()
    pid_namespace: int | None = None
    nested: bool = False
    tasks: tuple[str, ...] = ()
    tracer: int = 0
    marker: str = ""
    parent_name: str = ""
    age_s: float = 0.0

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(
            boot_id=self.boot_id,
            pid=self.pid,
            start_ticks=self.stat.start_ticks,
            uids=self.uids,
            exe=self.exe_id,
            pid_namespace=self.pid_namespace,
            cgroups=self.cgroups,
        )

    @property
    def kernel(self) -> bool:
        """Whether it is a kernel thread."""
        return bool(self.stat.flags & KERNEL_THREAD) or 2 in {self.pid, self.stat.parent}

    @property
    def defunct(self) -> bool:
        """Whether every thread has ended, so that only the parent can remove it. A dead first thread alone is not
        enough."""
        return self.stat.state in "ZX" and all(state in "ZX" for state in self.tasks)

    @property
    def blocked(self) -> bool:
        """Whether every living thread is in uninterruptible sleep."""
        living = [state for state in self.tasks or (self.stat.state,) if state not in "ZX"]
        return bool(living) and all(state == "D" for state in living)

    @property
    def cpu_s(self) -> float:
        return self.stat.cpu_ticks / TICKS_A_SECOND


@dataclass(frozen=True, slots=True)
class Machine:
    """The roots of /proc and /dev, and which PID namespace counts as the machine's own."""

    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    first_namespace: int = INIT_PID_NAMESPACE

    @classmethod
    def here(cls) -> "Machine":
        """Return this machine. Tests may give another folder of device files, and may declare the PID namespace they
        run in to be the machine's."""
        found = cls(dev=Path(config.marker("RWKVCTL_TEST_DEV") or "/dev"))
        own = config.marker("RWKVCTL_TEST_NAMESPACE") == "own"
        return replace(found, first_namespace=found.pid_namespace(os.getpid()) or 0) if own else found

    def stat(self, pid: int) -> ProcessStat | None:
        """Return /proc/PID/stat, a cheap read; None if there is no such process."""
        try:
            return ProcessStat.of(self.read(pid, "stat"))
        except (OSError, ValueError):
            return None

    def snapshot(self, pid: int) -> ProcessSnapshot | None:
        """Return a whole snapshot of a process; None if it does not exist, or ended while it was read."""
        before = self.stat(pid)
        if before is None:
            return None
        status = self.status(pid)
        uids = tuple(int(uid) for uid in status.get("Uid", "").split()[:3])
        tasks = self.tasks(pid) if before.state in "ZXD" else ()
        process = ProcessSnapshot(
            pid=pid,
            stat=before,
            boot_id=self.boot_id(),
            uids=uids,
            user=user_name(uids[0]) if uids else "",
            exe=self.link(pid, "exe"),
            exe_id=self.executable(pid),
            command=self.command(pid, before),
            cgroups=self.cgroups(pid),
            pid_namespace=self.pid_namespace(pid),
            nested=len(status.get("NSpid", "").split()) > 1,
            tasks=tasks,
            tracer=self.tracer(pid, before, status),
            marker=self.marker(pid),
            parent_name=self.name(before.parent),
            age_s=max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - before.start_ticks / TICKS_A_SECOND),
        )
        after = self.stat(pid)
        return process if after is not None and after.start_ticks == before.start_ticks else None

    def boot_id(self) -> str:
        with contextlib.suppress(OSError):
            return (self.proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return ""

    def read(self, pid: int, name: str) -> bytes:
        """Read a file of a process. Without pathlib, which takes longer than the kernel."""
        descriptor = os.open(f"{self.proc}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return b"".join(iter(lambda: os.read(descriptor, 65536), b""))
        finally:
            os.close(descriptor)

    def link(self, pid: int, name: str) -> str:
        try:
            return os.fsencode((self.proc / str(pid) / name).readlink()).decode(errors="replace")
        except OSError:
            return ""

    def executable(self, pid: int) -> tuple[int, int] | None:
        """Return device and inode of its program; a file that was replaced under the same name is another one."""
        try:
            found = (self.proc / str(pid) / "exe").stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def status(self, pid: int) -> dict[str, str]:
        """Return the fields of /proc/PID/status by name; empty if the file cannot be read."""
        try:
            text = self.read(pid, "status").decode(errors="replace")
        except OSError:
            return {}
        return {name: value.strip() for name, _, value in (line.partition(":") for line in text.split("\n")[:-1])}

    def command(self, pid: int, stat: ProcessStat) -> str:
        """Return its command line on one line, with `…` where it is cut; a process without one is named in brackets, as
        `ps` does."""
        with contextlib.suppress(OSError):
            if text := self.read(pid, "cmdline").rstrip(b"\0"):
                line = printable(text.replace(b"\0", b" ").decode(errors="replace"))
                return line if len(line) <= LONGEST_COMMAND else f"{line[: LONGEST_COMMAND - 1]}…"
        return printable(f"[{stat.comm}]")

    def cgroups(self, pid: int) -> tuple[str, ...]:
        """Return its path in every hierarchy, each once, without the root."""
        try:
            text = self.read(pid, "cgroup").decode(errors="replace")
        except OSError:
            return ()
        return tuple(sorted({path for line in text.split("\n") if (path := line.split(":", 2)[-1]) not in {"", "/"}}))

    def pid_namespace(self, pid: int) -> int | None:
        """Return the inode of its PID namespace; None if that may not be read."""
        text = self.link(pid, "ns/pid")
        return int(text[5:-1]) if text.startswith("pid:[") else None

    def tasks(self, pid: int) -> tuple[str, ...]:
        """Return the state letter of every thread of a process; threads that end meanwhile are left out."""
        found = []
        with contextlib.suppress(OSError):
            for task in (self.proc / str(pid) / "task").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    found.append(ProcessStat.of((task / "stat").read_bytes()).state)
        return tuple(found)

    def marker(self, pid: int) -> str:
        """Return the attempt in its environment. If its first thread has ended, another thread's environment is
        read."""
        prefix = f"{MARKER}=".encode()
        for path in self.with_threads(pid, "environ"):
            with contextlib.suppress(OSError):
                for pair in path.read_bytes().split(b"\0"):
                    if pair.startswith(prefix):
                        return pair.removeprefix(prefix).decode(errors="replace")
        return ""

    def tracer(self, pid: int, stat: ProcessStat, status: dict[str, str]) -> int:
        """Return the pid of a debugger of it, of one of its parents, or of one of its children; 0 if there is none."""
        if traced := int(status.get("TracerPid", "0")):
            return traced
        relatives = [*self.parents(stat.parent), *self.children(pid)]
        return next((by for one in relatives if (by := int(self.status(one).get("TracerPid", "0")))), 0)

    def parents(self, pid: int) -> Iterator[int]:
        """Yield its ancestors up to, and without, process 1."""
        for _ in range(DEPTH):
            stat = self.stat(pid) if pid > 1 else None
            if stat is None:
                return
            yield pid
            pid = stat.parent

    def children(self, pid: int) -> list[int]:
        """Return its children, if this kernel lists them."""
        found: list[int] = []
        for path in self.with_threads(pid, "children", always=True):
            with contextlib.suppress(OSError):
                found += [int(child) for child in path.read_text(encoding="ascii").split()]
        return found

    def with_threads(self, pid: int, name: str, *, always: bool = False) -> Iterator[Path]:
        """Yield `/proc/PID/NAME`, then `/proc/PID/task/TID/NAME`: if the first thread is dead, only those of others can
        be read."""
        process = self.proc / str(pid)
        if not always:
            yield process / name
            stat = self.stat(pid)
            if stat is None or stat.state not in "ZX":
                return
        with contextlib.suppress(OSError):
            yield from sorted(task / name for task in (process / "task").iterdir())

    def name(self, pid: int) -> str:
        stat = self.stat(pid) if pid > 0 else None
        return stat.comm if stat else ""

    def devices(self, pid: int) -> frozenset[str] | None:
        """Return the NVIDIA device files it has open (`nvidia0`, `nvidia-uvm`, ...); None if they may not be read."""
        found: set[str] = set()
        seen = False
        for folder in self.with_threads(pid, "fd"):
            with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError, NotADirectoryError):
                links = list(folder.iterdir())
                seen = True
                found |= {name for link in links if (name := self.device(link))}
        return frozenset(found) if seen else None

    def device(self, link: Path) -> str:
        """Return the name of the NVIDIA device that an open file is; empty if it is none."""
        try:
            target = link.readlink()
        except OSError:
            return ""
        return target.name if target.parent == self.dev and target.name.startswith("nvidia") else ""

    def holders(self) -> dict[int, frozenset[str]]:
        """Return every process with an NVIDIA device file open: about 0.1 ms a process, so only used in doubt."""
        found = {}
        for entry in self.proc.iterdir():
            if entry.name.isdigit() and (devices := self.devices(int(entry.name))):
                found[int(entry.name)] = devices
        return found

    def exists(self, pid: int) -> bool:
        """Whether there is a process of that pid, even one that /proc hides from us (`hidepid`)."""
        try:
            os.close(os.pidfd_open(pid))
        except OSError as error:
            return error.errno not in {errno.ESRCH, errno.EINVAL}
        return True


def user_name(uid: int) -> str:
    """Return the name of a user, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
