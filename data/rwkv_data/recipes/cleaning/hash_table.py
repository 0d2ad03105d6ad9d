"""Hashes with the rows that have them, sorted, in two plain files that are mapped into memory.

NAME.hashes    uint64, ascending
NAME.rows      uint32, the row of each; ascending among equal hashes
"""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from rwkv_data.recipes.cleaning.hashed_texts import Hashes, Places

Rows = NDArray[np.uint32]

AT_ONCE: Final = 1 << 22
"""Hashes that are sorted at once, in about 150 MB; more are sorted part by part."""


class HashTable:
    """Which rows have a hash. Raises OSError or ValueError if its files are not there or not of the same length."""

    def __init__(self, folder: Path, name: str) -> None:
        self.hashes = mapped_hashes(folder / f"{name}.hashes")
        self._rows = mapped_rows(folder / f"{name}.rows")
        if len(self.hashes) != len(self._rows):
            raise ValueError(f"{folder / name} has {len(self.hashes)} hashes and {len(self._rows)} rows")

    def find(self, hashes: Hashes) -> tuple[Places, Places]:
        """Return where the rows of each hash begin and end; the same number twice if it has none."""
        return np.searchsorted(self.hashes, hashes, "left"), np.searchsorted(self.hashes, hashes, "right")

    def rows(self, first: int, last: int) -> Rows:
        """Return the rows between two places that `find` gave."""
        return self._rows[first:last]


class HashTableWriter:
    """`with HashTableWriter(folder, name) as table: table.add(...)`: collects hashes in files, in the order of their
    rows, and sorts them at the end."""

    def __init__(self, folder: Path, name: str) -> None:
        self._hashes, self._rows = folder / f"{name}.hashes", folder / f"{name}.rows"
        self._open = [self._unsorted(path).open("wb") for path in (self._hashes, self._rows)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for file in self._open:
            file.close()
        if error is None:
            self._sort()

    def add(self, hashes: Hashes, rows: Places) -> None:
        """Add hashes with their rows."""
        for file, values in zip(self._open, (hashes.tobytes(), rows.astype(np.uint32).tobytes()), strict=True):
            file.write(values)

    def _sort(self) -> None:
        hashes = mapped_hashes(self._unsorted(self._hashes))
        rows = mapped_rows(self._unsorted(self._rows))
        with self._hashes.open("wb") as sorted_hashes, self._rows.open("wb") as sorted_rows:
            for part in _parts(hashes):
                chosen = hashes[part]
                order = np.argsort(chosen, kind="stable")
                sorted_hashes.write(chosen[order].tobytes())
                sorted_rows.write(rows[part][order].tobytes())
        for path in (self._hashes, self._rows):
            self._unsorted(path).unlink()

    @staticmethod
    def _unsorted(path: Path) -> Path:
        return path.with_name(f"{path.name}.unsorted")


def _parts(hashes: Hashes) -> Iterator[slice | Places]:
    """Yield which hashes to sort together: all of them, or part by part those with the same top bits, ascending."""
    if len(hashes) <= AT_ONCE:
        yield slice(None)
        return
    bits = (len(hashes) // AT_ONCE).bit_length()
    for part in range(1 << bits):
        pieces = (
            np.flatnonzero((hashes[at : at + AT_ONCE] >> np.uint64(64 - bits)) == part) + at
            for at in range(0, len(hashes), AT_ONCE)
        )
        yield np.concatenate(list(pieces))


def mapped_hashes(path: Path) -> Hashes:
    """Return the 64-bit numbers of a file, mapped into memory."""
    return np.frombuffer(_mapped(path), np.uint64)


def mapped_rows(path: Path) -> Rows:
    """Return the 32-bit numbers of a file, mapped into memory."""
    return np.frombuffer(_mapped(path), np.uint32)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
