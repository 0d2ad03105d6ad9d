"""Lines in a file, with an index beside it, so that any of them is read without those before it.

NAME.jsonl    the lines
NAME.index    where each line begins, and where the last one ends: 64-bit integers
"""

import array
import errno
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from rwkv_data.definition.errors import PrepareError

OFFSET: Final = 8
"""Bytes of an integer of the index."""


def place(end: int) -> bytes:
    """Return where a line ends as the index holds it."""
    return array.array("Q", [end]).tobytes()


class LineWriter:
    """Writes lines with their index: `with LineWriter(folder, "rows") as rows: rows.add(line)`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._lines, self._index = (folder / f"{name}.jsonl").open("wb"), (folder / f"{name}.index").open("wb")
        self._size = 0
        self._mark()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lines, self._index:
            pass

    def add(self, line: bytes) -> None:
        """Write a line, which ends with a line feed."""
        self._lines.write(line)
        self._size += len(line)
        self._mark()

    def _mark(self) -> None:
        self._index.write(place(self._size))


class IndexedLines:
    """The lines of a folder, held open: those that it was opened with are read, whatever takes their names later.
    Opening and reading raise OSError."""

    def __init__(self, folder: Path, name: str) -> None:
        self._index = (folder / f"{name}.index").open("rb")
        try:
            self._lines = (folder / f"{name}.jsonl").open("rb")
        except OSError:
            self._index.close()
            raise
        self._count, rest = divmod(_size(self._index), OFFSET)
        self._count -= 1
        if self._count < 0 or rest:
            self.close()
            raise OSError(errno.EIO, "its index is damaged", self._lines.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the lines and their index, once or again; after that reading raises ValueError."""
        with self._lines, self._index:
            pass

    def __len__(self) -> int:
        return self._count

    def some(self, first: int, most: int, most_bytes: int) -> Iterator[bytes]:
        """Yield lines from number `first` on: at most `most` of them, and no more than fill `most_bytes` but for
        one."""
        self._index.seek(first * OFFSET)
        places = array.array("Q", self._index.read((most + 1) * OFFSET))
        for begin, end in pairwise(places):
            if end - places[0] > most_bytes and begin > places[0]:
                return
            self._lines.seek(begin)
            yield self._lines.read(end - begin)

    def line(self, number: int) -> bytes:
        """Return one line by its number, counted from 0, however long it is; its line feed is part of it. Raises
        StopIteration if there is no such line, and OSError."""
        return next(self.some(number, 1, 0))

    def every(self) -> Iterator[bytes]:
        """Yield all lines in order, read one after the other. Raises PrepareError where they are not those of the
        index."""
        self._index.seek(0)
        self._lines.seek(0)
        places, end = iter(array.array("Q", self._index.read())), 0
        fits = next(places, None) == end
        for line in self._lines if fits else ():
            end += len(line)
            fits = next(places, None) == end
            if not fits:
                break
            yield line
        if not fits or next(places, None) is not None:
            raise PrepareError(f"{self._lines.name} is damaged: its lines are not where its index has them")


def _size(file: IO[bytes]) -> int:
    return file.seek(0, 2)
