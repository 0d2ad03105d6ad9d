"""Which problems stand too near a row of which benchmark (`rules`).

Hashes say where to look; the texts decide.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from rwkv_data.recipes.cleaning.benchmark_index import TABLES, BenchmarkIndex, Table
from rwkv_data.recipes.cleaning.hash_filter import HashFilter
from rwkv_data.recipes.cleaning.hash_table import HashTable
from rwkv_data.recipes.cleaning.hashed_texts import HashedTexts, Runs
from rwkv_data.recipes.cleaning.row_text import whole_forms
from rwkv_data.recipes.cleaning.rules import LONG_GRAM, SHORT_GRAM, SMALLEST_BAG, is_half
from rwkv_data.recipes.cleaning.words import grams_of, squeezed


class Match(NamedTuple):
    """What a problem has in common with a row of a benchmark; all three by their numbers. `rule` is the place in
    `RULES`. `start` is the word of the problem with which the rarest run begins that both have, `held_by` how many rows
    of the benchmark have it. `shared` of the problem's `total` 8-grams are the row's, where that was the rule."""

    row: int
    problem: int = 0
    benchmark: int = 0
    rule: int = 0
    start: int = 0
    held_by: int = 0
    shared: int = 0
    total: int = 0


class Hit(NamedTuple):
    """A run of a problem that a table has: the word it begins with, and where its rows stand in the table."""

    start: int
    first: int
    last: int


class Overlaps:
    """Compares blocks of problems with all benchmarks."""

    def __init__(self, indexes: Sequence[BenchmarkIndex]) -> None:
        self._indexes = indexes
        every = [partial(index.table, name) for index in indexes for name in TABLES]
        self._filter = HashFilter(sum(len(table().hashes) for table in every))
        for table in every:
            self._filter.add(table().hashes)

    def matches(self, problems: Sequence[str]) -> list[Match]:
        """Return the strongest match of each problem (given as words) with each benchmark that it is near, ordered by
        problem and benchmark; problems are numbered from 0."""
        runs = _runs(problems)
        left = {table: found.where(self._filter.may_hold(found.hashes)) for table, found in runs.items()}
        matches = [
            match
            for number, index in enumerate(self._indexes)
            for match in _of_benchmark(index, number, problems, left)
        ]
        return sorted(matches, key=lambda match: match.problem)


def _runs(problems: Sequence[str]) -> dict[Table, Runs]:
    hashed = HashedTexts(problems)
    return {
        "equal": HashedTexts(list(map(squeezed, problems))).whole(),
        "bags": hashed.bags(SMALLEST_BAG),
        "grams-13": hashed.runs(LONG_GRAM),
        "grams-8": hashed.runs(SHORT_GRAM).different(),
    }


def _of_benchmark(
    index: BenchmarkIndex, number: int, problems: Sequence[str], runs: Mapping[Table, Runs]
) -> Iterator[Match]:
    """Yield the strongest match of each problem with one benchmark."""
    found: set[int] = set()
    for rule, table in enumerate(TABLES):
        rows = index.table(table)
        for problem, hits in _hits(rows, runs[table]).items():
            match = None if problem in found else _MATCHES[table](index, rows, problems[problem], hits)
            if match is not None:
                found.add(problem)
                yield match._replace(problem=problem, benchmark=number, rule=rule)


def _hits(table: HashTable, runs: Runs) -> dict[int, list[Hit]]:
    """Return the runs that a table has, by problem; of each problem those first that the fewest rows have."""
    first, last = table.find(runs.hashes)
    hit = np.flatnonzero(last > first)
    by_problem: dict[int, list[Hit]] = defaultdict(list)
    columns = (runs.texts[hit], runs.starts[hit], first[hit], last[hit])
    for problem, *found in zip(*(column.tolist() for column in columns), strict=True):
        by_problem[problem].append(Hit(*found))
    for hits in by_problem.values():
        hits.sort(key=lambda hit: (hit.last - hit.first, hit.start))
    return by_problem


def _equal(index: BenchmarkIndex, table: HashTable, words: str, hits: list[Hit]) -> Match | None:
    whole = squeezed(words)
    return _first(hits, table, lambda _, row: whole in map(squeezed, whole_forms(index.texts(row))))


def _same_words(index: BenchmarkIndex, table: HashTable, words: str, hits: list[Hit]) -> Match | None:
    bag = sorted(words.split())
    return _first(hits, table, lambda _, row: bag == sorted(index.texts(row)[0].split()))


def _long_gram(index: BenchmarkIndex, table: HashTable, words: str, hits: list[Hit]) -> Match | None:
    separate = words.split()

    def is_there(hit: Hit, row: int) -> bool:
        gram = " ".join(separate[hit.start : hit.start + LONG_GRAM])
        return any(f" {gram} " in f" {form} " for form in whole_forms(index.texts(row)))

    return _first(hits, table, is_there)


def _first(hits: list[Hit], table: HashTable, holds: Callable[[Hit, int], bool]) -> Match | None:
    """Return the first row, of the rarest run first, for which a rule holds."""
    for hit in hits:
        for row in table.rows(hit.first, hit.last).tolist():
            if holds(hit, row):
                return Match(row=row, start=hit.start, held_by=hit.last - hit.first)
    return None


def _short_grams(index: BenchmarkIndex, table: HashTable, words: str, hits: list[Hit]) -> Match | None:
    grams = grams_of(words, SHORT_GRAM)
    if not is_half(len(hits), len(grams)):
        return None
    rows, counts = np.unique(np.concatenate([table.rows(hit.first, hit.last) for hit in hits]), return_counts=True)
    separate = words.split()
    for place in np.argsort(-counts, kind="stable").tolist():
        if not is_half(int(counts[place]), len(grams)):
            return None
        row = int(rows[place])
        shared = {gram for form in whole_forms(index.texts(row)) for gram in grams_of(form, SHORT_GRAM)} & grams
        if is_half(len(shared), len(grams)):
            rarest = next(hit for hit in hits if " ".join(separate[hit.start : hit.start + SHORT_GRAM]) in shared)
            return Match(row=row, start=rarest.start, held_by=rarest.last - rarest.first,
                         shared=len(shared), total=len(grams))  # fmt: skip
    return None


_MATCHES: Final[Mapping[Table, Callable[[BenchmarkIndex, HashTable, str, list[Hit]], Match | None]]] = {
    "equal": _equal, "bags": _same_words, "grams-13": _long_gram, "grams-8": _short_grams,
}  # fmt: skip
