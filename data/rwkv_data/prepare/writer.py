"""Writing a prepared set: everything beside its place first, then the manifest away, the files in, the manifest last.

So a set is at any moment the old one, whole, or the new one, whole, or counts as not prepared; also after a Ctrl-C or a
power cut. One preparation of a set runs at a time; a second one is refused at once.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from rwkv_data.definition.errors import PrepareError

MANIFEST: Final = "manifest.json"
_PART: Final = ".part"


@dataclass(frozen=True, slots=True)
class Written:
    """What was written under a name: how many lines, and the sha256 of all bytes."""

    rows: int
    sha256: str


class LineFile:
    """A file that is being written line by line."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest, self._rows = file, hashlib.sha256(), 0

    def add(self, line: bytes) -> None:
        """Append one line, with its end."""
        self._file.write(line)
        self._digest.update(line)
        self._rows += 1

    @property
    def written(self) -> Written:
        """What was written so far."""
        return Written(self._rows, self._digest.hexdigest())


@dataclass(slots=True)
class SetWriter:
    """The files of a set that is being prepared in `folder`. Names without a file are left away in the new set."""

    folder: Path
    files: list[str] = field(default_factory=list)

    def write(self, name: str, lines: Iterable[bytes]) -> Written:
        """Write one file of lines as a temporary file beside its place."""
        with self.opened(name) as file:
            for line in lines:
                file.add(line)
        return file.written

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[LineFile]:
        """Yield one file to write lines to, as a temporary file beside its place."""
        with self._part(name).open("wb") as file:
            yield LineFile(file)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        self.files.append(name)

    def finish(self, manifest: bytes) -> None:
        """Move the files to their places, and the manifest after them."""
        self.write(MANIFEST, [manifest])
        (self.folder / MANIFEST).unlink(missing_ok=True)
        for path in self.folder.glob("*.jsonl"):
            if path.name not in self.files:
                path.unlink()
        for name in self.files:
            self._part(name).replace(self.folder / name)

    def _part(self, name: str) -> Path:
        return self.folder / f".{name}{_PART}"


@contextlib.contextmanager
def writing(data_dir: Path, name: str) -> Iterator[SetWriter]:
    """Yield a writer for the set of that name; nothing of an unfinished one stays behind."""
    folder = data_dir / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            _sweep(folder)
            try:
                yield SetWriter(folder)
            finally:
                _sweep(folder)
                _drop_if_empty(folder)
    except OSError as error:
        raise PrepareError(f"{folder} cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a set, which the kernel releases when the process ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        os.fsync(descriptor)
    except BlockingIOError:
        raise PrepareError(f"{folder.name} is being prepared by another process; wait for that one") from None
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove the files that an interrupted preparation left."""
    for path in folder.glob(f".*{_PART}"):
        path.unlink()


def _drop_if_empty(folder: Path) -> None:
    """Remove the folder if a failed preparation left it empty."""
    with contextlib.suppress(OSError):
        folder.rmdir()
