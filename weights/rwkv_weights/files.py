"""Checkpoint files as files: who they are (device, inode, size, time), their sha256, where the built-in one lies."""

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

CHUNK_BYTES = 8 * 1024 * 1024
BUILTIN = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The key of the sha256 cache: a file whose identity is unchanged is taken to hold the same bytes."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileIdentity":
        """Raises OSError where the file cannot be asked."""
        return cls._from(path.stat())

    @classmethod
    def _from(cls, status: os.stat_result) -> "FileIdentity":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A file's sha256 with the identity it had when reading began; `changed` says that it is another one by now."""

    path: Path
    sha256: str
    identity: FileIdentity
    changed: bool


def open_plain(path: Path) -> FileIO:
    """Open to read. Raises OSError for all but a plain file, and opens nothing else, not through a link either: a
    device may do something when it is opened, a pipe waits. What turns into one in between is not waited for."""
    check_plain(path.stat(), path)
    file = FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    try:
        check_plain(os.fstat(file.fileno()), path)
    except OSError:
        file.close()
        raise
    return file


def check_plain(found: os.stat_result, path: Path) -> None:
    """Raises OSError."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no file, but a folder, pipe, socket or device", str(path))


def hash_file(path: Path) -> HashedFile:
    """Read the file once, in chunks. Raises OSError."""
    digest = hashlib.sha256()
    with open_plain(path) as file:
        before = FileIdentity._from(os.fstat(file.fileno()))
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return HashedFile(path, digest.hexdigest(), before, changed=FileIdentity.of(path) != before)


def identity_of(files: Sequence[Path]) -> FileIdentity:
    """Of one file its own; of several, one that changes as soon as any of them does. Raises OSError."""
    each = [FileIdentity.of(file) for file in files]
    if len(each) == 1:
        return each[0]
    digest = hashlib.sha256(repr([(file.name, one) for file, one in zip(files, each, strict=True)]).encode()).digest()
    stands_for_inode = int.from_bytes(digest[:8]) >> 1
    return FileIdentity(each[0].device, stands_for_inode, sum(i.size for i in each), max(i.mtime_ns for i in each))


def builtin_checkpoint_path() -> Path:
    """The checkpoint that ships with the package. Raises FileNotFoundError if this build carries none."""
    found = sorted(BUILTIN.glob("*.pth"))
    if not found:
        raise FileNotFoundError(f"no built-in checkpoint in {BUILTIN}")
    return found[-1]
