"""A large file is made beside its place, in a part that no other run writes, and gets its name when it is whole."""

import errno
import fcntl
import os
from pathlib import Path
from typing import BinaryIO, Final

from rwkv_weights.errors import WeightsError

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
"""What a file system without hard links says."""


def locked_part(path: Path, busy: str) -> BinaryIO:
    """Return the part, locked against another run, with what an earlier one left in it; made anew where another has
    just finished with it. Raises WeightsError with the sentence `busy` if another run has it, or if it is not ours
    alone; OSError."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        part = os.fdopen(os.open(path, flags, 0o644), "r+b")
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            part.close()
            raise WeightsError(busy) from None
        found = os.fstat(part.fileno())
        if not (path.exists() and os.path.samestat(found, path.stat())):
            part.close()
            continue
        if (found.st_uid, found.st_nlink) == (os.geteuid(), 1):
            return part
        part.close()
        raise WeightsError(f"{path} belongs to another user or has a second name; remove it.")


def name_it(part: Path, target: Path) -> None:
    """Give a part its name, durably. Raises WeightsError if there is anything of that name; OSError."""
    try:
        os.link(part, target)
        part.unlink()
    except FileExistsError:
        raise appeared(target) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise appeared(target) from None
        part.rename(target)
    sync_folder(target.parent)


def appeared(target: Path) -> WeightsError:
    return WeightsError(f"{target} has appeared meanwhile, and stays as it is.")


def sync_folder(folder: Path) -> None:
    """Sync a folder, as a new name is on the disk only when its folder is. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
