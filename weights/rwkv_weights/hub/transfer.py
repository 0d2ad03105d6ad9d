"""Fetch one file: resume where it broke off, retry with patience, and check it before it gets its name.

The bytes grow in a `.part` beside the target, which no other program takes for a checkpoint. It gets its name only when
all bytes are there, their digest is the hub's, and they are on the disk.
"""

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO, Final, Protocol

from rwkv_weights.errors import HubError, WeightsError
from rwkv_weights.hub.choice import Item, part_of
from rwkv_weights.hub.remote import FRUITLESS, Hub, RemoteFile, backoff
from rwkv_weights.local import sha256_sidecar
from rwkv_weights.local.checkpoint_files import CHUNK_BYTES, FileIdentity
from rwkv_weights.local.sha256_cache import Sums
from rwkvctl.text.quantities import size

PIECE_BYTES: Final = 1024 * 1024
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


Tell = Callable[[int, int], None]
"""Called with the bytes that are there now, and how many of them an earlier run had fetched."""


class Digest(Protocol):
    """The part of a hashlib object that a transfer uses."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class StoppedError(Exception):
    """The operator stopped the transfer; the bytes fetched so far stay."""


class WrongBytesError(HubError):
    """All bytes came, but they are not those that the hub announced."""


class Transfer:
    """One file on its way. `tell` hears of every byte that is there, and of those that are lost (negative)."""

    def __init__(self, hub: Hub, item: Item, sums: Sums, tell: Tell, stop: Event) -> None:
        self.hub, self.remote, self.target, self.sums = hub, item.remote, item.target, sums
        self.part = part_of(item.remote, item.target)
        self._tell, self._stop = tell, stop
        self._digest: Digest = digest_of(item.remote)
        self._place = 0

    def run(self) -> None:
        """Fetch the file. Raises HubError, WeightsError or StoppedError; all but wrong bytes stay for the next run."""
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with self._alone() as part:
                self._take_up(part)
                self._right(part)
                self._finish(part)
        except OSError as error:
            raise self._disk(error) from error

    def _right(self, part: BinaryIO) -> None:
        """Fetch all bytes and check them; once more from the beginning if they are wrong, and none are kept if they are
        wrong again."""
        try:
            self._all(part)
        except WrongBytesError:
            self._begin_again(part)
            try:
                self._all(part)
            except WrongBytesError:
                self.part.unlink()
                raise

    def _alone(self) -> BinaryIO:
        """Return the part, locked against another run; made anew where that one has just finished with it."""
        while True:
            part = os.fdopen(os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b")
            try:
                fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                part.close()
                raise WeightsError("another download is fetching it; look again when that one has ended.") from None
            if self.part.exists() and os.path.samestat(os.fstat(part.fileno()), self.part.stat()):
                return part
            part.close()

    def _take_up(self, part: BinaryIO) -> None:
        """Hash the bytes that an earlier run left; if there are more than the file has, start from none."""
        if os.fstat(part.fileno()).st_size > self.remote.size:
            part.truncate(0)
        while piece := part.read(CHUNK_BYTES):
            self._count(piece, kept=len(piece))

    def _all(self, part: BinaryIO) -> None:
        """Ask until every byte is there. An attempt that brings bytes resets the count of fruitless ones."""
        fruitless = 0
        while self._place < self.remote.size:
            before = self._place
            try:
                with self.hub.one_sentence(self.remote.repo):
                    self._ask(part)
            except HubError as error:
                fruitless = 1 if self._place > before else fruitless + 1
                if not error.passing or fruitless >= FRUITLESS:
                    raise
                self._wait(backoff(fruitless, error.wait_s))
        if self._digest.hexdigest() != self.remote.digest:
            raise WrongBytesError(
                f"the bytes are not those that the hub announced ({kind(self.remote)} {self._digest.hexdigest()}, not "
                f"{self.remote.digest}), fetched twice; they are thrown away."
            )

    def _ask(self, part: BinaryIO) -> None:
        with self.hub.open(self.remote, self._place) as response:
            if response.status_code == 416:
                self._begin_again(part)
                raise HubError("the hub does not know the rest of it", passing=True)
            self.hub.check(response)
            if not self._continues(response):
                self._begin_again(part)
            for piece in response.iter_raw(PIECE_BYTES):
                self._keep(part, piece)
        if self._place < self.remote.size:
            raise HubError("the connection ended early", passing=True)

    def _continues(self, response: Any) -> bool:
        """Whether the answer begins at our position: a hub may send everything though it was asked for the rest."""
        if response.status_code != 206:
            return self._place == 0
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != self._place:
            raise HubError("the hub sends another part than it was asked for", passing=True)
        return True

    def _keep(self, part: BinaryIO, piece: bytes) -> None:
        if self._stop.is_set():
            raise StoppedError
        if self._place + len(piece) > self.remote.size:
            self._begin_again(part)
            raise HubError(f"the hub sends more than the {self.remote.size:,} bytes it announced", passing=True)
        self._write(part, piece)
        self._count(piece)

    def _write(self, part: BinaryIO, piece: bytes) -> None:
        """Write at the piece's place: what a failed write left is overwritten, so the part never has a gap."""
        done, view = 0, memoryview(piece)
        while done < len(piece):
            done += os.pwrite(part.fileno(), view[done:], self._place + done)

    def _count(self, piece: bytes, kept: int = 0) -> None:
        self._digest.update(piece)
        self._place += len(piece)
        self._tell(len(piece), kept)

    def _begin_again(self, part: BinaryIO) -> None:
        self._tell(-self._place, 0)
        os.ftruncate(part.fileno(), 0)
        self._digest, self._place = digest_of(self.remote), 0

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedError

    def _finish(self, part: BinaryIO) -> None:
        """Write the file to the disk, give it its name, and remember its digest."""
        os.fsync(part.fileno())
        if self.target.exists():
            raise WeightsError(f"{self.target} has appeared meanwhile, and stays as it is.")
        self.part.rename(self.target)
        sync_folder(self.target.parent)
        if self.remote.sha256:
            sha256_sidecar.write(self.target, self.remote.sha256)
            self.sums.remember(self.target, FileIdentity.of(self.target), self.remote.sha256)

    def _disk(self, error: OSError) -> WeightsError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            kept = f"{size(self._place)} of {size(self.remote.size)} are kept"
            return WeightsError(f"the disk of {self.target.parent} is full; {kept}: free some, and run it again.")
        return WeightsError(f"{error.filename or self.target} cannot be written: {error.strerror or error}")


def digest_of(remote: RemoteFile) -> Digest:
    """Return a new digest: sha256, or git's sha1 (of a header and the bytes) for small files outside large file
    storage."""
    if remote.sha256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % remote.size, usedforsecurity=False)


def kind(remote: RemoteFile) -> str:
    """Return the name of the hash function of `remote.digest`."""
    return "sha256" if remote.sha256 else "git sha1"


def same_bytes(remote: RemoteFile, path: Path, tell: Tell, stop: Event) -> bool:
    """Whether a file that lies there is the hub's: read once, whole. Raises OSError and StoppedError."""
    digest = digest_of(remote)
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK_BYTES):
            if stop.is_set():
                raise StoppedError
            digest.update(piece)
            tell(len(piece), 0)
    return digest.hexdigest() == remote.digest


def sync_folder(folder: Path) -> None:
    """Sync a folder, as a new name is on the disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
