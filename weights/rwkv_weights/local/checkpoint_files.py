"""Checkpoint files: their identity, their sha256, and the path of the built-in one."""

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
"""The files that `allow_only` has named; empty: any file."""
READ: list[int] = []
"""Descriptors of the weight files that were opened since."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The key of the sha256 cache: a file whose identity is unchanged is taken to hold the same bytes. `changed_ns` is
    the ctime, because a user can set the mtime of a file but not its ctime."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileIdentity":
        """Return the identity of a file. Raises OSError."""
        return cls.from_status(path.stat())

    @classmethod
    def from_status(cls, status: os.stat_result) -> "FileIdentity":
        return cls(signed(status.st_dev), signed(status.st_ino), status.st_size, status.st_ctime_ns)


def signed(number: int) -> int:
    """Return a number of 64 bits as one that a store can hold: some file systems use the upper half for inodes."""
    return number - 2**64 if number >= 2**63 else number


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A file's sha256, with the identity that it had when reading began; `changed`: it is another file by now."""

    path: Path
    sha256: str
    identity: FileIdentity
    changed: bool


def open_plain(path: Path, *, beside: bool = False) -> FileIO:
    """Open a file to read. Raises OSError for all but a regular file, links to others included, and never opens those:
    opening a device may have effects, and opening a pipe may block. Files that lie `beside` weights and hold none
    (JSON, sums) need not be among those that `allow_only` names."""
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
    """Allow this process to read weights from these files only, spelled as `is_file` reads them, because a changed link
    in a path could lead to another file."""
    ALLOWED.update(inodes)


def check_allowed(found: os.stat_result) -> None:
    """Check that an opened file is one that `allow_only` named. Raises OSError (ESTALE) if it is not."""
    if not any(is_file(found, one) for one in ALLOWED):
        raise OSError(errno.ESTALE, NOT_THAT_FILE)


def check_unchanged() -> None:
    """Check that no file that `allow_only` names was changed since it was opened. To be called when all is read. Raises
    OSError."""
    while READ:
        descriptor = READ.pop()
        try:
            check_allowed(os.fstat(descriptor))
        finally:
            os.close(descriptor)


def is_file(status: os.stat_result, spelled: str) -> bool:
    """Whether a file is the one spelled "device:inode", or "device:inode:ctime in ns"."""
    return spelled in {f"{status.st_dev}:{status.st_ino}", f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}"}


def check_plain(found: os.stat_result, path: Path) -> None:
    """Check that `found` is the status of a regular file. Raises OSError (EINVAL) if it is not."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no file, but a folder, pipe, socket or device", str(path))


def hash_file(path: Path, only: str = "") -> HashedFile:
    """Hash a file in chunks. With `only`, raises OSError before a byte is read unless `is_file` says it is that
    file."""
    digest = hashlib.sha256()
    with open_plain(path) as file:
        found = os.fstat(file.fileno())
        if only and not is_file(found, only):
            raise OSError(errno.ESTALE, NOT_THAT_FILE, str(path))
        before = FileIdentity.from_status(found)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return HashedFile(path, digest.hexdigest(), before, changed=FileIdentity.of(path) != before)


def identity_of(files: Sequence[Path]) -> FileIdentity:
    """Return the identity of one file, or for several files one that changes if any of them does. Raises OSError."""
    return together(files, [FileIdentity.of(file) for file in files])


def together(files: Sequence[Path], each: Sequence[FileIdentity]) -> FileIdentity:
    """Combine the identities of files. Raises FileNotFoundError if there are none, as in an emptied folder."""
    if not each:
        raise FileNotFoundError(errno.ENOENT, "no file of weights is there")
    if len(each) == 1:
        return each[0]
    digest = hashlib.sha256(repr([(file.name, one) for file, one in zip(files, each, strict=True)]).encode()).digest()
    stands_for_inode = int.from_bytes(digest[:8]) >> 1
    return FileIdentity(each[0].device, stands_for_inode, sum(i.size for i in each), max(i.changed_ns for i in each))


def builtin_checkpoint_path() -> Path:
    """Return the path of the checkpoint that ships with the package. Raises FileNotFoundError if this build has
    none."""
    found = sorted(BUILTIN.glob("*.pth"))
    if not found:
        raise FileNotFoundError(f"no built-in checkpoint in {BUILTIN}")
    return found[-1]
