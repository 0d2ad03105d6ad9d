"""The unfinished file: a `.part` beside the target, which no other program takes for a checkpoint."""

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, Self

from rwkv_weights.errors import WeightsError
from rwkv_weights.hub.choice import Item, part_of
from rwkv_weights.hub.remote import RemoteFile, WrongBytesError
from rwkv_weights.local.checkpoint_files import CHUNK_BYTES
from rwkv_weights.local.new_file import locked_part
from rwkvctl.text.quantities import size

BUSY: Final = "another download is fetching it; look again when that one has ended."

Tell = Callable[[int, int], None]
"""Called with the bytes that came (negative: that were lost), and how many of them an earlier run had fetched."""


class Digest(Protocol):
    """The part of a hashlib object that is used here."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Part:
    """Takes a file's bytes in their order, hashes and counts them; `http_get` of huggingface_hub takes it for a file.
    Locked against other runs. Raises WeightsError, and OSError where it cannot be opened or read."""

    def __init__(self, item: Item, tell: Tell) -> None:
        self.remote, self.path, self._tell = item.remote, part_of(item.remote, item.target), tell
        self._digest, self._place = digest_of(item.remote), 0
        self._file = locked_part(self.path, BUSY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take_up(self) -> None:
        """Hash the bytes that an earlier run left; if there are more than the file has, start from none."""
        if os.fstat(self._file.fileno()).st_size > self.remote.size:
            self._file.truncate(0)
        while piece := self._file.read(CHUNK_BYTES):
            self._count(piece, kept=len(piece))

    def write(self, piece: bytes) -> int:
        """Add bytes. Raises WrongBytesError if there are more than the hub announced."""
        if self._place + len(piece) > self.remote.size:
            raise WrongBytesError(f"the hub sends more than the {self.remote.size:,} bytes that it announced")
        done, view = 0, memoryview(piece)
        try:
            while done < len(piece):  # what a failed write left is overwritten, so there is never a gap
                done += os.pwrite(self._file.fileno(), view[done:], self._place + done)
        except OSError as error:
            raise self._refused(error) from error
        self._count(piece)
        return len(piece)

    def tell(self) -> int:
        """Return how many bytes are there."""
        return self._place

    def seek(self, place: int) -> int:
        """`http_get` seeks to the beginning before it truncates, and nowhere else."""
        assert place == 0, place
        return place

    def truncate(self) -> int:
        """Throw all bytes away and begin again; returns 0, the new length, as files do."""
        os.ftruncate(self._file.fileno(), 0)
        self._tell(-self._place, 0)
        self._digest, self._place = digest_of(self.remote), 0
        return 0

    def check(self) -> None:
        """Raise WrongBytesError if the bytes are not those that the hub announced."""
        if (found := self._digest.hexdigest()) != self.remote.digest:
            what = f"{kind(self.remote)} {found}, not {self.remote.digest}"
            raise WrongBytesError(f"the bytes are not those that the hub announced ({what})")

    def sync(self) -> None:
        """Write the bytes to the disk, which may say only now that it is full."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> WeightsError:
        """Return the sentence for a disk that does not take the file."""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            kept = f"{size(self._place)} of {size(self.remote.size)} are kept"
            return WeightsError(f"the disk of {self.path.parent} is full; {kept}: free some, and run it again.")
        return unwritable(self.path, error)

    def _count(self, piece: bytes, kept: int = 0) -> None:
        self._digest.update(piece)
        self._place += len(piece)
        self._tell(len(piece), kept)


def unwritable(path: Path, error: OSError) -> WeightsError:
    """Return the sentence for a file that cannot be written."""
    return WeightsError(f"{error.filename or path} cannot be written: {error.strerror or error}")


def digest_of(remote: RemoteFile) -> Digest:
    """Return a new digest: sha256, or git's sha1 (of a header and the bytes) for small files outside large file
    storage."""
    if remote.sha256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % remote.size, usedforsecurity=False)


def kind(remote: RemoteFile) -> str:
    """Return the name of the hash function of `remote.digest`."""
    return "sha256" if remote.sha256 else "git sha1"
