"""One pass over a checkpoint's bytes: hash each file, and check each number while its page is in memory."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from rwkv_weights.formats import load
from rwkv_weights.formats.finite import FiniteCheck
from rwkv_weights.formats.index import Index
from rwkv_weights.local.checkpoint_files import CHUNK_BYTES, FileIdentity, HashedFile, open_plain

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def silent(_: int) -> None:
    """Discard the progress: the default of `tell`."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result of a pass: a hash for each file, and the tensors that hold NaN or infinities."""

    hashes: tuple[HashedFile, ...]
    damaged: tuple[str, ...]


def read_all(index: Index, tell: Progress = silent) -> ReadResult:
    """Hash a checkpoint's files and check its tensors for NaN and infinities. Raises CheckpointError if it does not
    load, OSError if a file cannot be read."""
    tensors = load.load(index.path).tensors
    finite = FiniteCheck()
    hashes = tuple(_file(index, file, tensors, finite, tell) for file in index.files)
    return ReadResult(hashes, tuple(finite.damaged()))


def hash_files(files: tuple[Path, ...], tell: Progress = silent) -> ReadResult:
    """Hash files that do not load as a checkpoint."""
    return ReadResult(tuple(_hash(file, silent, tell) for file in files), ())


def _file(index: Index, file: Path, tensors: Mapping[str, Tensor], finite: FiniteCheck, tell: Progress) -> HashedFile:
    ends = ((e.offset + e.span, name) for name, e in index.entries.items() if e.file == file)
    waiting = sorted(ends, reverse=True)

    def check_numbers(place: int) -> None:
        while waiting and waiting[-1][0] <= place:
            name = waiting.pop()[1]
            finite.add(name, tensors[name])

    return _hash(file, check_numbers, tell)


def _hash(file: Path, check_numbers: Callable[[int], None], tell: Progress) -> HashedFile:
    digest, place = hashlib.sha256(), 0
    before = FileIdentity.of(file)
    with open_plain(file) as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            place += len(chunk)
            check_numbers(place)
            tell(len(chunk))
    return HashedFile(file, digest.hexdigest(), before, changed=FileIdentity.of(file) != before)
