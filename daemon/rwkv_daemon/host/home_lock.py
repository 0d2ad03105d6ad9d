"""The lock of a home: one daemon, or one program that needs it down, works there at a time."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkv_daemon.host import socket_folder
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.workers import shim, worker_process
from rwkvctl.protocol.errors import ConfigError, Exit, RwkvctlError
from rwkvctl.settings import process_locks
from rwkvctl.settings.config import Config

CHILD_S: Final = 10.0
LOOK_S: Final = 0.02


class AlreadyRunningError(RwkvctlError):
    """Raised when another process holds the lock of the home."""

    exit_code = Exit.REFUSED


@contextlib.contextmanager
def only_one(settings: Config) -> Iterator[None]:
    """Hold the lock of the home within the block, and make its folders. The lock ends with the process, unlike a pid
    file. Raises AlreadyRunningError if another process holds it, RwkvctlError if a folder or the lock cannot be made.
    """
    try:
        for folder in (settings.home, settings.runs_dir, settings.data_dir, settings.weights_dir):
            folder.mkdir(parents=True, exist_ok=True)
        socket_folder.make_folder(settings)
    except OSError as error:
        if error.errno not in socket_folder.NO_ROOM or not Path(error.filename).is_relative_to(settings.home):
            raise unusable(settings, error) from error
        log.warning("%s cannot be made yet: %s", error.filename, error.strerror)
    descriptor = open_lock(settings)
    try:
        take(descriptor, settings)
        with contextlib.suppress(OSError):  # no room, or a read-only file system: only the lock matters
            process_locks.hold(descriptor)  # a second kind of lock, which engines can test without taking it
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def take(descriptor: int, settings: Config) -> None:
    """Take the lock. A process that the last daemon was just starting when it was killed has the lock until it executes
    its program, so where that daemon is gone, this waits for it. Raises AlreadyRunningError."""
    deadline = time.monotonic() + CHILD_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = settings.daemon_lock.read_text(encoding="ascii").strip()
            if is_alive(pid) or time.monotonic() > deadline:
                text = f"a daemon (pid {pid or '?'}) already runs on {settings.home}"
                raise AlreadyRunningError(f"{text}; talk to it, or set RWKVCTL_HOME to another home.") from None
        time.sleep(LOOK_S)


def is_alive(pid: str) -> bool:
    """Whether the process that the lock file names runs; one that it does not name yet does."""
    if not pid.isdecimal():
        return True
    with contextlib.suppress(OSError, IndexError, ValueError):
        return worker_process.is_same(int(pid), shim.start_ticks(int(pid)))
    return False


def unusable(settings: Config, error: OSError) -> RwkvctlError:
    """Return why a folder of the daemon cannot be used, and what to do about it."""
    if error.errno != errno.EROFS:
        return RwkvctlError(f"{error.filename} cannot be made: {error.strerror}. Make room, or set RWKVCTL_HOME.")
    inside = Path(error.filename)
    folders = (folder for folder in (settings.data_dir, settings.weights_dir) if folder in (inside, *inside.parents))
    return ConfigError(
        f"{inside} cannot be written: the file system is read-only for this daemon. The service's unit allows only "
        f"folders of its own: make the folder, give it to the daemon's user, run `systemctl edit rwkvctl`, add the "
        f"lines `[Service]` and `ReadWritePaths={next(folders, settings.home)}`, and start the service again."
    )


def open_lock(settings: Config) -> int:
    """Open the lock file, for reading if it cannot be written. Raises RwkvctlError."""
    path = settings.daemon_lock
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise unusable(settings, error) from error
