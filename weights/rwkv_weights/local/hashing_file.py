"""Write a file and hash it in one pass: a checkpoint of many gigabytes is not read again for its sha256."""

import hashlib
from concurrent.futures import Executor
from typing import BinaryIO, Final

ASIDE_BYTES: Final = 1 << 20
"""From this size on a piece is hashed while it is written: for less, handing it over costs more."""


class HashingFile:
    """A file that is written from its start to its end, without seeking. `aside` runs the hashing of large pieces."""

    def __init__(self, file: BinaryIO, aside: Executor) -> None:
        self._file = file
        self._aside = aside
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The sum of what is written so far."""
        return self._digest.hexdigest()

    def write(self, piece: bytes | memoryview) -> int:
        """Write a piece and hash it. Raises OSError."""
        if len(piece) < ASIDE_BYTES:
            self._digest.update(piece)
            return self._file.write(piece)
        hashing = self._aside.submit(self._digest.update, piece)
        try:
            return self._file.write(piece)
        finally:
            hashing.result()  # pieces are hashed in their order

    def flush(self) -> None:
        self._file.flush()
