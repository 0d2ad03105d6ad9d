"""Locks that show that a process is alive: held for as long as it lives, and tested without taking them.

They are the kernel's (of an open file, F_OFD_*), so they are reliable: a process that was stopped or hangs still holds
its lock, and a killed one does not, whatever it left on the disk. Standard library only.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

FLOCK: Final = struct.Struct("hhqqi")
"""`struct flock` with 64-bit offsets: type, whence, start, length (0: to the end), pid (0, as the call wants it)."""


def hold(descriptor: int, *, shared: bool = False) -> None:
    """Lock an open file until it is closed; `shared` together with others that do so, and then reading is enough.
    Raises BlockingIOError if another process holds it, OSError if the file system has no locks."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno == errno.EACCES:  # both errors mean that it is taken
            raise BlockingIOError(error.errno, error.strerror) from error
        raise


def is_held(path: Path) -> bool:
    """Whether a living process holds a lock on a file, in either way; testing locks nothing. False for a missing file,
    True for one that cannot be tested."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        return bool(FLOCK.unpack(found)[0] != fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(descriptor)
