"""The parent of one worker: owns its log, outlives the daemon, and writes down how it ended. Standard library only.

    python -I -S shim.py RECORD LOG [--lock FILES] [--share FILE] [--cgroup FOLDER] [--log-cap BYTES] -- PROGRAM ARG...

Started by file path (isolated mode has no editable install). The daemon is never needed again: no pipe leads to it.
What no daemon could ever end, it ends itself: a worker whose run directory is gone (then there is nobody to tell), and
what a worker left behind.
The worker waits behind a pipe until the record that identifies it is on disk, so no worker ever runs without a record.
Exit code 75 means that a lock was held by somebody else, or cannot be opened, and nothing was started. FILES are
separated by line feeds.

The worker's outputs are the log file itself. A pipe through this process would block the worker whenever this process
is slow or stopped, and lose its last words when this process dies. So nothing can be renamed or copied away under the
worker; instead the middle of a log that has grown over its cap is given back to the file system (a hole): its beginning
and its newest lines stay, every byte keeps its place, and `tail -f` and whoever reads by offset notice nothing.
"""

import ctypes
import fcntl
import json
import os
import signal
import stat
import struct
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOCK_HELD = 75
FORWARDED = (signal.SIGTERM, signal.SIGINT)
LOOK_S = 1.0
PATIENCE = 10
"""Looks (seconds) between asking a worker to end and killing it, and the time that what it left behind has to end."""
MEMORY_EVERY = 5
"""Looks between two readings of how many processes the kernel has killed for lack of memory."""
PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE
HEAD_BYTES, BLOCK = 256 * 1024, 4096
TIME = struct.Struct("<dQ")
SPARSER_AFTER = 65536


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def start_ticks(pid: int) -> int:
    """Return field 22 of /proc/PID/stat; the command name may hold blanks and brackets, so count from its last ')'."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib doubles this program's start-up
        return int(file.read().rpartition(b")")[2].split()[19])


class RunFolder:
    """The run directory. It is held open: files are written into it, or nowhere, but never into another one that has
    taken its place."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def is_gone(self) -> bool:
        """Whether it was removed, or moved away."""
        try:
            there = os.stat(self.path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False  # it cannot be inspected now
        own = os.fstat(self.descriptor)
        return (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino)

    def write_durably(self, name: str, record: dict[str, object]) -> None:
        """Replace the record so that after a power loss there is the old one or the new one, whole."""
        temporary, here = f"{name}.tmp", self.descriptor
        text = json.dumps(record)
        try:
            self.write(temporary, text)
            os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
        except FileNotFoundError:
            raise
        except OSError:  # no room for a second file: the first one's block has room for these few bytes
            self.remove(temporary)
            self.write(name, text)
        os.fsync(here)

    def remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return

    def write(self, name: str, text: str) -> None:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666, dir_fd=self.descriptor)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def take_lock(path: str, how: int) -> int:
    """Take a lock that ends with this process; exits with LOCK_HELD if another process has it."""
    try:
        descriptor = open_lock(path)
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        found, named = os.fstat(descriptor), os.lstat(path)
        if (found.st_dev, found.st_ino) != (named.st_dev, named.st_ino):
            raise BlockingIOError(0, "it was replaced just now")
    except FileNotFoundError:
        raise  # the folder is missing, so nobody holds a lock in it
    except OSError as error:
        why = "another process holds it" if isinstance(error, BlockingIOError) else error.strerror
        sys.stderr.write(f"{path} cannot be locked: {why}\n")
        sys.exit(LOCK_HELD)
    return descriptor


def open_lock(path: str) -> int:
    """Open a lock file that all users of the machine share, in a sticky folder that all may write to. Nothing is ever
    written into it or read from it: reading is enough for flock, so that a file of another user will do, and can do
    no harm. No link is followed, nothing but a plain file is taken, and a file that exists is opened without O_CREAT,
    which the kernel forbids where it is another user's (fs.protected_regular)."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
            os.fchmod(descriptor, 0o444)  # whatever the umask is: other users' daemons must be able to lock it
        except FileExistsError:
            descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(0, "it is not a plain file")
    return descriptor


class WorkerLog:
    """The worker's log: kept under its cap, with a file beside it that says which length it had when."""

    def __init__(self, path: str, cap: int) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self.cap, self.size, self.dropped = cap, 0, HEAD_BYTES
        times = f"{path.removesuffix('.txt')}.times"
        self.times = os.open(times, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self.entries, self.looks = os.fstat(self.times).st_size // TIME.size, 0
        self.fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        self.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]

    def look(self) -> None:
        """Called once a second. A full disk costs entries of the times file, never the worker."""
        self.looks += 1
        size = os.fstat(self.descriptor).st_size
        if size == self.size or self.looks % (1 + self.entries // SPARSER_AFTER):
            return
        self.size = size
        self.entries += 1
        try:
            if os.write(self.times, TIME.pack(time.time(), size)) < TIME.size:
                os.ftruncate(self.times, os.fstat(self.times).st_size // TIME.size * TIME.size)
        except OSError:
            pass  # contextlib would double this program's start-up
        if self.cap and size - self.dropped > self.cap:
            self.drop((size - self.cap // 2) // BLOCK * BLOCK)

    def drop(self, end: int) -> None:
        """Free what lies between the beginning and the newest half of the cap."""
        if self.fallocate(self.descriptor, PUNCH_HOLE, self.dropped, end - self.dropped) == 0:
            self.dropped = end
        else:
            self.cap = 0  # the file system does not support holes; only the daemon's check of the disk is left


def join(cgroup: str) -> None:
    """Move this process into its cgroup; if that fails, it runs outside."""
    try:
        write = os.open(f"{cgroup}/cgroup.procs", os.O_WRONLY)
        os.write(write, b"0")
    except OSError as error:
        os.write(2, f"no cgroup: {cgroup}: {error.strerror}\n".encode())


def drop_oom_protection() -> None:
    """Drop the unit's protection against the out-of-memory killer, which is for the daemon alone."""
    try:
        place = os.open("/proc/self/oom_score_adj", os.O_RDWR)
        if int(os.read(place, 16)) < 0:
            os.pwrite(place, b"0", 0)
        os.close(place)
    except (OSError, ValueError) as error:
        os.write(2, f"the protection against the out-of-memory killer stays: {error}\n".encode())


def run_worker(argv: list[str], log: int, gate: int, parent: int, cgroup: str) -> None:
    """Run the worker in the child: own process group, ends with the shim, starts once the record is durable."""
    os.setpgid(0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or os.read(gate, 1) != b"!":
        os._exit(125)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    if cgroup:
        join(cgroup)
    drop_oom_protection()
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
        os._exit(127)


def let_begin(opener: int) -> None:
    """Let the worker begin, now that its record is durable. One that was killed before is recorded like any other."""
    try:
        os.write(opener, b"!")
    except BrokenPipeError:
        return


class OomWatch:
    """Whether the kernel has just killed a process for lack of memory: in the worker's cgroup, or on this machine. A
    large process takes a while to be gone, so what counts is what happened in the last five to fifteen seconds."""

    def __init__(self, cgroup: str) -> None:
        self.cgroup = cgroup
        self.looks, self.before = 0, [self.killed()]

    def look(self) -> None:
        self.looks += 1
        if self.looks % MEMORY_EVERY == 0:
            self.before = [*self.before[-2:], self.killed()]

    def killed(self) -> "int | None":
        """Return how many, since the machine was started; None if the kernel does not say."""
        return counter("/proc/vmstat", "oom_kill")

    def verdict(self) -> "str | None":
        """Return `cgroup`, `machine`, or nothing if no process was killed so; None if that is unknown."""
        if self.cgroup and counter(f"{self.cgroup}/memory.events", "oom_kill"):
            return "cgroup"
        now = self.killed()
        if now is None or self.before[0] is None:
            return None
        return "machine" if now > self.before[0] else ""


def counter(path: str, name: str) -> "int | None":
    """Return the number in a line `NAME NUMBER` of a file of the kernel."""
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(f"{name} "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        return None
    return None


class OrphanWatch:
    """Handles once a second what no daemon could: a worker whose run directory is gone cannot be found any more, and
    processes that a worker left behind, for which this process waits, may have nobody to end them."""

    def __init__(self, worker: int, folder: RunFolder, memory: OomWatch) -> None:
        self.worker, self.folder, self.memory = worker, folder, memory
        self.ended, self.looks = False, 0

    def look(self) -> None:
        self.memory.look()
        if not self.ended and not self.folder.is_gone():
            self.looks = 0
            return
        self.looks += 1
        if self.looks == 1:
            self.send(signal.SIGTERM)
        elif self.looks > PATIENCE:
            self.send(signal.SIGKILL)
            for pid in children():
                os.kill(pid, signal.SIGKILL)

    def send(self, number: int) -> None:
        """Signal the worker's group, while it is certainly its own; it may be gone already."""
        if self.ended:
            return
        try:
            os.killpg(self.worker, number)
        except ProcessLookupError:
            return


def children() -> "list[int]":
    """Return our children. Their numbers cannot be reused before we have waited for them."""
    found, me = [], os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == me:
                found.append(int(name))
    return found


def wait_for_all(keeper: OrphanWatch, record: "dict[str, object]", name: str, started: float) -> None:
    """Reap the worker and all of its descendants; write the exit when the worker itself has ended."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            continue
        if found.si_pid == keeper.worker:
            keeper.ended = True  # before it is reaped: afterwards its group's number may be reused
        _, status, usage = os.wait4(found.si_pid, 0)
        if found.si_pid == keeper.worker:
            record |= {
                "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                "oom": keeper.memory.verdict(),
                "max_rss_kib": usage.ru_maxrss,
                "user_s": usage.ru_utime,
                "system_s": usage.ru_stime,
                "wall_s": time.monotonic() - started,
                "done": True,
            }
            try:
                keeper.folder.write_durably(name, record)
            except FileNotFoundError:
                continue  # the run directory is gone, and the record with it


def main() -> None:
    split = sys.argv.index("--")
    (path, log_path, *words), argv = sys.argv[1:split], sys.argv[split + 1 :]
    options = dict(zip(words[::2], words[1::2], strict=True))
    for lock in filter(None, options.get("--lock", "").split("\n")):
        take_lock(lock, fcntl.LOCK_EX)
    if "--share" in options:
        take_lock(options["--share"], fcntl.LOCK_SH)
    cgroup = options.get("--cgroup", "")
    if os.getpid() != os.getpgid(0):
        os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    place, name = os.path.split(path)
    folder, log = RunFolder(place or "."), WorkerLog(log_path, int(options.get("--log-cap", "0")))
    memory, (gate, opener) = OomWatch(cgroup), os.pipe()
    started, me = time.monotonic(), os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(opener)
        run_worker(argv, log.descriptor, gate, me, cgroup)
    os.close(gate)
    os.setpgid(worker, worker)  # here too: a signal to forward may come before the child has run
    keeper = OrphanWatch(worker, folder, memory)
    for forwarded in FORWARDED:
        signal.signal(forwarded, lambda number, _frame: keeper.send(number))
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        boot = file.read().strip()
    record: dict[str, object] = {"shim": me, "shim_start": start_ticks(me), "pid": worker, "boot_id": boot}
    record |= {"pid_start": start_ticks(worker), "done": False, "cgroup": cgroup}
    folder.write_durably(name, record)

    def look(_number: int, _frame: object) -> None:
        log.look()
        keeper.look()

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    let_begin(opener)
    wait_for_all(keeper, record, name, started)
    log.look()


if __name__ == "__main__":
    main()
