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
from rwkv_data.recipes.cleaning.problem_text import Problem
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
        """Which problems stay: those that are neither near a benchmark nor a duplicate of an earlier one."""
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
    problems: Iterable[Problem], indexes: Sequence[BenchmarkIndex], scratch: Path, report: Callable[[int], None]
) -> Cleaned:
    """Clean problems: read once, in order, and never held in memory together. `scratch` is a folder for what is written
    meanwhile and must stay as long as the result is used; `report` is told how many problems were compared."""
    overlaps, first, empty = Overlaps(indexes), 0, 0
    found = [np.empty((0, len(Match._fields)), np.int64)]
    with WordTableWriter(scratch / _TABLE, "words") as table:
        for block in _blocks(problems):
            whole = [" ".join(filter(None, problem)) for problem in block]
            words = [words_of(text) for text in whole]
            table.add([stored(text, own) for text, own in zip(whole, words, strict=True)])
            matches = [match._replace(problem=match.problem + first) for match in _matches(overlaps, block, words)]
            found.append(np.array(matches, np.int64).reshape(-1, len(Match._fields)))
            first += len(block)
            empty += words.count("")
            report(first)
    written = WordTable(scratch / _TABLE)
    nothing = Duplicates(np.full(len(written), -1, np.int64), 0)
    cleaned = Cleaned(written, indexes, np.concatenate(found), nothing, empty)
    return replace(cleaned, duplicates=duplicates(written, cleaned.stays, scratch))


def _matches(overlaps: Overlaps, block: list[Problem], words: list[str]) -> list[Match]:
    """Return the matches of a block of problems, with their choices and without them: a row is as well the same with
    its choices in another order. A problem is the beginning of its words with the choices, so places agree."""
    alone = ["" if not problem.choices else words_of(problem.text) for problem in block]
    found: dict[tuple[int, int], Match] = {}
    for match in [*overlaps.matches(words), *(overlaps.matches(alone) if any(alone) else ())]:
        key = match.problem, match.benchmark
        if key not in found or match.rule < found[key].rule:
            found[key] = match
    return [found[key] for key in sorted(found)]


def _blocks(problems: Iterable[Problem]) -> Iterator[list[Problem]]:
    """Yield problems some at a time, each block about as long as the others."""
    block: list[Problem] = []
    size = 0
    for problem in problems:
        block.append(problem)
        size += len(problem.text) + len(problem.choices)
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block
