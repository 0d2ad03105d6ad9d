"""What engines have answered in earlier attempts at a job, so that a harness which begins anew need not wait for it
again. One file in the run directory of the job, which the harness itself cannot reach; it is only appended to.

Several equal requests may have different answers (samples of one prompt): the first one of an attempt gets the answer
that the first one had, and so on.
"""

import contextlib
import hashlib
import heapq
import os
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

MOST_BYTES: Final = 4 * 1024**3
"""A file of this size takes nothing more."""
FILE: Final = "harness-answers"
HEAD: Final = struct.Struct(">32sI")
"""Before each answer: the sha256 of its request, and how many bytes it takes, compressed."""


class KeptAnswer(NamedTuple):
    """An answer, and the engine that gave it."""

    engine: str
    body: bytes


class RequestPlace(NamedTuple):
    """The sha256 of a request, and how many equal ones came before it in this attempt."""

    request: bytes
    number: int


class KeptAnswers:
    """The file of one job. Trouble with it costs an attempt nothing but time, so it raises no error but for a run
    directory that cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._next = Counter[bytes]()
        self._free = defaultdict[bytes, list[int]](list)
        self._before = defaultdict[bytes, list[tuple[int, int]]](list)
        self._end = self._read()

    def _read(self) -> int:
        """Learn where each answer lies; returns the end of the last whole one."""
        end, size = 0, os.fstat(self._file).st_size
        while len(head := os.pread(self._file, HEAD.size, end)) == HEAD.size:
            request, length = HEAD.unpack(head)
            if end + HEAD.size + length > size:
                break
            self._before[request].append((end + HEAD.size, length))
            end += HEAD.size + length
        return end

    @contextmanager
    def place(self, path: str, body: bytes) -> Iterator[RequestPlace]:
        """Yield the place of a request; one that ends by an error or is cancelled gives it back."""
        request = hashlib.sha256(path.encode() + b"\0" + body).digest()
        free = self._free[request]
        number = heapq.heappop(free) if free else self._next[request]
        self._next[request] = max(self._next[request], number + 1)
        try:
            yield RequestPlace(request, number)
        except BaseException:
            heapq.heappush(free, number)
            raise

    def at(self, place: RequestPlace) -> KeptAnswer | None:
        """Return the answer that an earlier attempt had at a place; None if it had none."""
        before = self._before.get(place.request, ())
        if place.number >= len(before):
            return None
        offset, length = before[place.number]
        with contextlib.suppress(OSError, zlib.error):
            engine, _, body = zlib.decompress(os.pread(self._file, length, offset)).partition(b"\0")
            return KeptAnswer(engine.decode(), body)
        return None

    def keep(self, place: RequestPlace, answer: KeptAnswer) -> None:
        """Keep an answer, unless the file is full."""
        packed = zlib.compress(answer.engine.encode() + b"\0" + answer.body, 1)
        whole = HEAD.pack(place.request, len(packed)) + packed
        if self._end + len(whole) > MOST_BYTES:
            return
        with contextlib.suppress(OSError):  # the disk is full: what is there of it is written over by the next
            if os.pwrite(self._file, whole, self._end) == len(whole):
                self._end += len(whole)

    def close(self) -> None:
        os.close(self._file)


def forget(folder: Path) -> None:
    """Remove the file of a job that is done."""
    (folder / FILE).unlink(missing_ok=True)
