"""Cleaning of problems: against benchmarks, then of duplicates among those that stay."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rwkv_data.recipes.cleaning.benchmark_index import BenchmarkIndex
from rwkv_data.recipes.cleaning.near_duplicates import Duplicates, duplicates, equality, stored, words_stored
from rwkv_data.recipes.cleaning.overlap import Match, Overlaps
from rwkv_data.recipes.cleaning.word_table import BLOCK, WordTable, WordTableWriter
from rwkv_data.recipes.cleaning.words import words_of

_TABLE: Final = "words"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What cleaning found. Problems are numbered from 0, in their order; `without_words` of them have no word to
    compare."""

    table: WordTable
    indexes: Sequence[BenchmarkIndex]
    matches: NDArray[np.int64]
    duplicates: Duplicates
    without_words: int

    @property
    def near(self) -> NDArray[np.bool_]:
        """Which problems are near a benchmark."""
        near = np.zeros(len(self.table), bool)
        near[self.matches[:, Match._fields.index("problem")]] = True
        return near

    @property
    def stays(self) -> NDArray[np.bool_]:
        """Which problems stay."""
        return ~self.near & (self.duplicates.of < 0)

    def words(self, problem: int) -> str:
        """Return the words of a problem."""
        return words_stored(self.table.text(problem))

    def is_equal(self, problem: int, other: int) -> bool:
        """Return whether two problems are equal."""
        return equality(self.table.text(problem)) == equality(self.table.text(other))

    def by_problem(self) -> Iterator[tuple[int, list[Match]]]:
        """Yield each dropped problem, in order, with its matches, one for each benchmark that it is near; none for a
        duplicate."""
        each = itertools.groupby((Match(*match.tolist()) for match in self.matches), key=lambda match: match.problem)
        near = ((problem, list(matches)) for problem, matches in each)
        repeated = ((problem, list[Match]()) for problem in np.flatnonzero(self.duplicates.of >= 0).tolist())
        return heapq.merge(near, repeated, key=lambda found: found[0])


def clean(
    problems: Iterable[str], indexes: Sequence[BenchmarkIndex], scratch: Path, report: Callable[[int], None]
) -> Cleaned:
    """Clean problems: read once, in order, and never held in memory together. `scratch` is a folder for what is written
    meanwhile and must stay as long as the result is used; `report` is told how many problems were compared."""
    overlaps, first, empty = Overlaps(indexes), 0, 0
    found = [np.empty((0, len(Match._fields)), np.int64)]
    with WordTableWriter(scratch / _TABLE, "words") as table:
        for block in _blocks(problems):
            words = [words_of(problem) for problem in block]
            table.add([stored(problem, own) for problem, own in zip(block, words, strict=True)])
            matches = [match._replace(problem=match.problem + first) for match in overlaps.matches(words)]
            found.append(np.array(matches, np.int64).reshape(-1, len(Match._fields)))
            first += len(block)
            empty += words.count("")
            report(first)
    written = WordTable(scratch / _TABLE)
    nothing = Duplicates(np.full(len(written), -1, np.int64), 0)
    cleaned = Cleaned(written, indexes, np.concatenate(found), nothing, empty)
    return replace(cleaned, duplicates=duplicates(written, cleaned.stays, scratch))


def _blocks(problems: Iterable[str]) -> Iterator[list[str]]:
    """Yield problems some at a time, each block about as long as the others."""
    block: list[str] = []
    size = 0
    for problem in problems:
        block.append(problem)
        size += len(problem)
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block
