"""Checkpoint files as files: what identifies them, their sha256, where the built-in one lies."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

CHUNK_BYTES = 8 * 1024 * 1024
BUILTIN = Path(__file__).parents[1] / "builtin"
NOT_THAT_FILE = "it is not the file that was asked for"
ALLOWED: set[str] = set()
"""What `allow_only` has said; empty: any file."""
READ: list[int] = []
"""Descriptors of the files of weights that were opened since."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The key of the sha256 cache: a file whose identity is unchanged is taken to hold the same bytes. `changed_ns` is
    its ctime: whoever writes into a file can set the time of the last writing, but not that of the last change."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileIdentity":
        """Raises OSError where the file cannot be asked."""
        return cls._from(path.stat())

    @classmethod
    def _from(cls, status: os.stat_result) -> "FileIdentity":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A file's sha256 with the identity it had when reading began; `changed` says that it is another one by now."""

    path: Path
    sha256: str
    identity: FileIdentity
    changed: bool


def open_plain(path: Path, *, beside: bool = False) -> FileIO:
    """Open to read. Raises OSError for all but a plain file, and opens nothing else, not through a link either: a
    device may do something when it is opened, a pipe waits. What turns into one in between is not waited for. What
    lies `beside` weights and holds none (JSON, sums) may be any file."""
    check_plain(path.stat(), path)
    file = FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    try:
        found = os.fstat(file.fileno())
        check_plain(found, path)
        if ALLOWED and not beside:
            check_allowed(found)
            READ.append(os.dup(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def allow_only(inodes: Iterable[str]) -> None:
    """From now on this process reads weights from no other files than these, spelled as `is_file` reads it: whoever can
    turn a link in a path could lead it to another one."""
    ALLOWED.update(inodes)


def check_allowed(found: os.stat_result) -> None:
    """Check that an opened file is one that `allow_only` named. Raises OSError (ESTALE) if it is not."""
    if not any(is_file(found, one) for one in ALLOWED):
        raise OSError(errno.ESTALE, NOT_THAT_FILE)


def check_unchanged() -> None:
    """Raises OSError if a file that `allow_only` names was changed since it was opened: it may have been read before
    and after. Ask once all is read."""
    while READ:
        descriptor = READ.pop()
        try:
            check_allowed(os.fstat(descriptor))
        finally:
            os.close(descriptor)


def is_file(status: os.stat_result, spelled: str) -> bool:
    """Whether a file is the one that is spelled "device:inode", or "device:inode:time of its last change in ns"."""
    return spelled in {f"{status.st_dev}:{status.st_ino}", f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}"}


def check_plain(found: os.stat_result, path: Path) -> None:
    """Check that `found` is the status of a regular file. Raises OSError (EINVAL) if it is not."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no file, but a folder, pipe, socket or device", str(path))


def hash_file(path: Path, only: str = "") -> HashedFile:
    """Read the file once, in chunks; with `only` not a byte of it unless it `is_file` that. Raises OSError."""
    digest = hashlib.sha256()
    with open_plain(path) as file:
        found = os.fstat(file.fileno())
        if only and not is_file(found, only):
            raise OSError(errno.ESTALE, NOT_THAT_FILE, str(path))
        before = FileIdentity._from(found)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return HashedFile(path, digest.hexdigest(), before, changed=FileIdentity.of(path) != before)


def identity_of(files: Sequence[Path]) -> FileIdentity:
    """Of one file its own; of several, one that changes as soon as any of them does. Raises OSError."""
    return together(files, [FileIdentity.of(file) for file in files])


def together(files: Sequence[Path], each: Sequence[FileIdentity]) -> FileIdentity:
    """The identity of files that have these. Raises FileNotFoundError where there are none, as in an emptied folder."""
    if not each:
        raise FileNotFoundError(errno.ENOENT, "no file of weights is there")
    if len(each) == 1:
        return each[0]
    digest = hashlib.sha256(repr([(file.name, one) for file, one in zip(files, each, strict=True)]).encode()).digest()
    stands_for_inode = int.from_bytes(digest[:8]) >> 1
    return FileIdentity(each[0].device, stands_for_inode, sum(i.size for i in each), max(i.changed_ns for i in each))


def builtin_checkpoint_path() -> Path:
    """The checkpoint that ships with the package. Raises FileNotFoundError if this build carries none."""
    found = sorted(BUILTIN.glob("*.pth"))
    if not found:
        raise FileNotFoundError(f"no built-in checkpoint in {BUILTIN}")
    return found[-1]
