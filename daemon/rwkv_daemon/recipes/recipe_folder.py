"""The folder of a recipe, HOME/recipes/rN: what its process has made.

    new/                what it is making; of no use until it is whole
    made/rows.jsonl     the training rows, a line each
    made/rows.index     where each line begins, and where the last one ends: 64-bit integers
    made/dropped.*      the same for the problems that were dropped in cleaning: why
    made/result.json    the funnel, the number of rows, and the card

The renaming of `new` decides, so a process that is killed has made nothing, and is started again.
"""

import array
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, Self

import msgspec

from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.run_directory import replace
from rwkv_data.recipes.funnel import FunnelStage

Lines = Literal["rows", "dropped"]
OFFSET: Final = 8
"""Bytes of an integer of the index."""


class MadeRows(msgspec.Struct, frozen=True, kw_only=True):
    """What was made. `card`: what stands beside an exported file."""

    rows: int
    funnel: tuple[FunnelStage, ...]
    card: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecipeFolder:
    """The files of one recipe."""

    path: Path

    @property
    def new(self) -> Path:
        return self.path / "new"

    @property
    def made(self) -> Path:
        return self.path / "made"

    def begin(self) -> None:
        """Remove what earlier processes left, and make room for what is made. Raises OSError."""
        for left in (self.new, self.made):
            shutil.rmtree(left, ignore_errors=True)
        self.new.mkdir(parents=True)

    def finish(self, result: MadeRows) -> None:
        """Have what lies in `new` count as made. Raises OSError."""
        replace(self.new / "result.json", msgspec.json.encode(result))
        for path in (*self.new.iterdir(), self.new):
            _sync(path)
        crash_point("recipe-rows-before-renaming")
        self.new.rename(self.made)
        crash_point("recipe-rows-after-renaming")
        _sync(self.path)

    def result(self) -> MadeRows | None:
        """Return what was made, or None if nothing was, or if it is from another version."""
        try:
            return msgspec.json.decode((self.made / "result.json").read_bytes(), type=MadeRows)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def count(self, of: Lines) -> int:
        """Return how many lines there are. Raises OSError."""
        return (self.made / f"{of}.index").stat().st_size // OFFSET - 1

    def lines(self, of: Lines, first: int, most: int, most_bytes: int) -> Iterator[bytes]:
        """Yield lines from number `first` on: at most `most` of them, and no more than fill `most_bytes` but for one.
        Raises OSError."""
        with (self.made / f"{of}.index").open("rb") as index, (self.made / f"{of}.jsonl").open("rb") as lines:
            index.seek(first * OFFSET)
            places = array.array("Q", index.read((most + 1) * OFFSET))
            for begin, end in pairwise(places):
                if end - places[0] > most_bytes and begin > places[0]:
                    return
                lines.seek(begin)
                yield lines.read(end - begin)

    def give_up(self) -> None:
        """Remove what was being made."""
        shutil.rmtree(self.new, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


class LineWriter:
    """Writes lines with their index: `with LineWriter(folder, "rows") as rows: rows.add(line)`."""

    def __init__(self, folder: Path, of: Lines) -> None:
        self._lines, self._index = (folder / f"{of}.jsonl").open("wb"), (folder / f"{of}.index").open("wb")
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
        self._index.write(array.array("Q", [self._size]).tobytes())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
