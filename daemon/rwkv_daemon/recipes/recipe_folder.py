"""The folder of a recipe, HOME/recipes/rN: what its process has made.

    new/                what it is making; of no use until it is whole
    made/rows.*         the training rows, a line each, with their index (rwkv_data.recipes.indexed_lines)
    made/dropped.*      the same for the problems that were dropped in cleaning: why
    made/result.json    the funnel, the number of rows, and the card

The renaming of `new` decides, so a process that is killed has made nothing, and is started again.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.run_directory import replace
from rwkv_data.recipes.funnel import FunnelStage
from rwkv_data.recipes.indexed_lines import IndexedLines

Lines = Literal["rows", "dropped"]


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

    def lines(self, of: Lines) -> IndexedLines:
        """Return what was made, opened. Raises OSError."""
        return IndexedLines(self.made, of)

    def give_up(self) -> None:
        """Remove what was being made."""
        shutil.rmtree(self.new, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
