"""The parent of one worker: owns its log, outlives the daemon, and writes down how it ended. Standard library only.

    python -I -S shim.py RECORD LOG [--lock FILE] -- PROGRAM ARG...

Started by file path (isolated mode has no editable install). The daemon is never needed again: no pipe leads to it.
The worker waits behind a pipe until the record that identifies it is on disk, so no worker ever runs without a record.
Exit code 75 means that the lock was held by somebody else and nothing was started.
"""

import ctypes
import fcntl
import json
import os
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOCK_HELD = 75


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat; the command name may hold blanks and brackets, so count from its last ')'."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib doubles this program's start-up
        return int(file.read().rpartition(b")")[2].split()[19])


def write_durably(path: str, record: dict[str, object]) -> None:
    """Replace the record so that after a power loss there is the old one or the new one, whole."""
    temporary = f"{path}.tmp"
    text = json.dumps(record)
    try:
        write_file(temporary, text)
        os.rename(temporary, path)  # noqa: PTH104
    except OSError:  # no room for a second file: the first one's block has room for these few bytes
        write_file(path, text)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120
    os.fsync(folder)
    os.close(folder)


def write_file(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def take_lock(path: str) -> int:
    """An exclusive lock that dies with this process; exits with LOCK_HELD if somebody has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(f"{path} is locked by another process\n")
        sys.exit(LOCK_HELD)
    return descriptor


def run_worker(argv: list[str], log: int, gate: int, parent: int) -> None:
    """In the child: own process group, dies with the shim, starts once the record is durable."""
    os.setpgid(0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or os.read(gate, 1) != b"!":
        os._exit(125)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
        os._exit(127)


def wait_for_all(worker: int, record: dict[str, object], path: str, started: float) -> None:
    """Reap the worker and whatever of its tree comes to us; write the exit when the worker itself has ended."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return
        if pid == worker:
            record |= {
                "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                "max_rss_kib": usage.ru_maxrss,
                "user_s": usage.ru_utime,
                "system_s": usage.ru_stime,
                "wall_s": time.monotonic() - started,
                "done": True,
            }
            write_durably(path, record)


def main() -> None:
    split = sys.argv.index("--")
    (path, log_path, *options), argv = sys.argv[1:split], sys.argv[split + 1 :]
    if options:
        take_lock(options[1])
    if os.getpid() != os.getpgid(0):
        os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    gate, opener = os.pipe()
    started, me = time.monotonic(), os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(opener)
        run_worker(argv, log, gate, me)
    os.close(gate)
    os.setpgid(worker, worker)  # here too: a signal to pass on may come before the child has run
    for forwarded in (signal.SIGTERM, signal.SIGINT):
        signal.signal(forwarded, lambda number, _frame: pass_on(worker, number))
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        boot = file.read().strip()
    record: dict[str, object] = {"shim": me, "shim_start": start_ticks(me), "pid": worker, "boot_id": boot}
    record |= {"pid_start": start_ticks(worker), "done": False}
    write_durably(path, record)
    os.write(opener, b"!")
    wait_for_all(worker, record, path, started)


def pass_on(worker: int, number: int) -> None:
    """Hand a signal to the worker's group; it may be gone already."""
    try:
        os.killpg(worker, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main()
