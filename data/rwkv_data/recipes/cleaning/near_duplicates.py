"""Which problems repeat an earlier one that stays: equal ones, and those whose sets of 5-grams are near (`rules`).

The similarity is computed exactly, over all pairs, without looking at all pairs (prefix filtering: Chaudhuri et al.
2006; Bayardo et al., "Scaling up all pairs similarity search", 2007; positions: Xiao et al. 2008). Let grams be ordered
by how many problems have them, the rarest first. Two sets that share at least four fifths of the larger one must share
one of the first fifth of each; so problems are candidates of each other only if a rare gram stands in both. Most rare
grams stand in one problem, and cost nothing.

That order only has to be the same for all problems, so the counts may be wrong: they are kept in a table of fixed size
in which grams share places. Hashes say where to look; the texts decide.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rwkv_data.recipes.cleaning.hash_table import mapped_hashes
from rwkv_data.recipes.cleaning.hashed_texts import HashedTexts, Hashes, Places
from rwkv_data.recipes.cleaning.rules import DUPLICATE_GRAM, fewest_shared, is_near
from rwkv_data.recipes.cleaning.word_table import BLOCK, WordTable
from rwkv_data.recipes.cleaning.words import grams_of, signs_of, squeezed

MOST_COMPARED: Final = 1000
"""Candidates that one problem is compared with. More come from problems that share most of their words with thousands
of others and are yet no duplicates of them: rows that begin with the same page of instructions. Those that share the
rarest grams are compared first; how many problems were not compared with all is counted."""
COUNTERS: Final = 24
"""The table of counts has at most 2**24 places, which are 64 MiB."""


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Of each problem the earlier one that it repeats, or -1. `in_part` problems had more candidates than they were
    compared with."""

    of: Places
    in_part: int


def duplicates(table: WordTable, live: NDArray[np.bool_], scratch: Path) -> Duplicates:
    """Find the duplicates among the problems of a table (rows as `stored` makes them) that are `live`; others are
    neither dropped nor kept. Files in `scratch` hold what does not fit into memory."""
    grams = _GramSets(table, live, scratch)
    search = _Search(table, grams, _shared_rare_grams(grams))
    for problem in search.worth_a_look():
        search.place(problem)
    return Duplicates(search.of, search.in_part)


def stored(text: str, words: str) -> str:
    """Return what the table holds of a problem: its words, and on a second line its signs where it is too short for a
    5-gram."""
    return f"{words}\n{signs_of(text)}" if words and words.count(" ") < DUPLICATE_GRAM - 1 else words


def words_stored(row: str) -> str:
    """Return the words of a row of the table, without the signs."""
    return row.partition("\n")[0]


def equality(row: str) -> str:
    """Return what the rows of two equal problems have in common."""
    words, _, signs = row.partition("\n")
    return squeezed(words) + signs


def similarity(one: str, other: str) -> float:
    """Return the Jaccard similarity of the 5-grams of two problems, given as words; 1 if neither has any."""
    mine, theirs = grams_of(one, DUPLICATE_GRAM), grams_of(other, DUPLICATE_GRAM)
    return len(mine & theirs) / len(mine | theirs) if mine or theirs else 1.0


class _GramSets:
    """The different 5-grams of each live problem as sorted hashes in a file, how many problems have each (about), and
    the hash by which equal problems are found."""

    def __init__(self, table: WordTable, live: NDArray[np.bool_], scratch: Path) -> None:
        self.sizes = np.zeros(len(table), np.int64)
        self.equal = np.zeros(len(table), np.uint64)
        self._live = live
        self._counts = np.zeros(1 << COUNTERS, np.uint32)
        path = scratch / "grams-5"
        with path.open("wb") as file:
            for first, rows in table.blocks():
                file.write(self._add(first, rows).tobytes())
        self._ends = np.cumsum(self.sizes)
        self._begins = self._ends - self.sizes
        self._hashes = mapped_hashes(path)

    def _add(self, first: int, rows: list[str]) -> Hashes:
        """Note sizes, counts and equality of a block, and return the hashes of its grams."""
        last = first + len(rows)
        mine = [row if live else "" for row, live in zip(rows, self._live[first:last].tolist(), strict=True)]
        runs = HashedTexts(mine).runs(DUPLICATE_GRAM).different()
        self.sizes[first:last] = np.bincount(runs.texts, minlength=len(rows))
        np.add.at(self._counts, self._places(runs.hashes), 1)
        whole = HashedTexts([equality(row) for row in mine]).whole()
        self.equal[first + whole.texts] = whole.hashes
        return runs.hashes

    @staticmethod
    def _places(hashes: Hashes) -> Hashes:
        return hashes >> np.uint64(64 - COUNTERS)

    def of(self, problem: int) -> Hashes:
        """Return the hashes of a problem, ascending."""
        return self._hashes[self._begins[problem] : self._ends[problem]]

    def rare(self) -> Iterator[tuple[Hashes, Places, Places]]:
        """Yield the rarest fifth of each problem's grams: their hashes, problems and places in the problem's order,
        some problems at a time. Left out are grams that no second problem can have."""
        first = 0
        while first < len(self.sizes):
            begin = self._begins[first]
            last = max(first + 1, int(np.searchsorted(self._ends, begin + BLOCK, "right")))
            hashes = np.asarray(self._hashes[begin : self._ends[last - 1]])
            problems = np.repeat(np.arange(first, last), self.sizes[first:last])
            counts = self._counts[self._places(hashes)]
            order = np.lexsort((hashes, counts, problems))
            hashes, counts = hashes[order], counts[order]
            at = np.arange(len(hashes)) + begin - self._begins[problems]
            size = self.sizes[problems]
            rare = (at <= size - (4 * size + 4) // 5) & (counts > 1)
            yield hashes[rare], problems[rare], at[rare]
            first = last


def _shared_rare_grams(sets: _GramSets) -> tuple[Places, Places, Places]:
    """Return the rare grams that several problems have, ordered by problem and then from the rarest on: the problem,
    the gram's place in the problem's order, and a number of the gram."""
    none = np.empty(0, np.int64)
    found = [(none.astype(np.uint64), none, none), *sets.rare()]
    hashes, problems, places = (np.concatenate([one[column] for one in found]) for column in range(3))
    order = np.argsort(hashes, kind="stable")
    hashes, problems, places = hashes[order], problems[order], places[order]
    new = np.ones(len(hashes), bool)
    new[1:] = hashes[1:] != hashes[:-1]
    gram = np.cumsum(new) - 1
    shared = np.bincount(gram)[gram] > 1 if len(gram) else new
    order = np.lexsort((places[shared], problems[shared]))
    return problems[shared][order], places[shared][order], gram[shared][order]


class _Search:
    """Goes through the problems in their order, and remembers those that stay by the rare grams they have."""

    def __init__(self, table: WordTable, sets: _GramSets, shared: tuple[Places, Places, Places]) -> None:
        self._table, self._sets = table, sets
        self._problems, self._places, self._grams = shared
        self._staying: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._equal: dict[int, list[int]] = defaultdict(list)
        self.of = np.full(len(table), -1, np.int64)
        self.in_part = 0

    def worth_a_look(self) -> list[int]:
        """Return the problems that may be duplicates or have some, in order."""
        hashes, counts = np.unique(self._sets.equal, return_counts=True)
        repeated = hashes[(counts > 1) & (hashes != 0)]
        twins = np.flatnonzero(np.isin(self._sets.equal, repeated))
        found: list[int] = np.union1d(twins, self._problems).tolist()
        return found

    def place(self, problem: int) -> None:
        """Decide whether a problem stays."""
        hashed = int(self._sets.equal[problem])
        whole = equality(self._table.text(problem))
        twin = next((one for one in self._equal[hashed] if equality(self._table.text(one)) == whole), -1)
        entries = self._entries(problem)
        self.of[problem] = twin if twin >= 0 else self._nearest(problem, entries)
        if self.of[problem] < 0:
            self._equal[hashed].append(problem)
            for place, gram in entries:
                self._staying[gram].append((problem, place))

    def _entries(self, problem: int) -> list[tuple[int, int]]:
        first, last = np.searchsorted(self._problems, [problem, problem + 1])
        return list(zip(self._places[first:last].tolist(), self._grams[first:last].tolist(), strict=True))

    def _nearest(self, problem: int, entries: list[tuple[int, int]]) -> int:
        """Return the first problem that stays and is near this one; -1 if there is none."""
        size, seen, candidates = int(self._sets.sizes[problem]), set[int](), list[int]()
        for place, gram in entries:
            for other, other_place in self._staying[gram]:
                if other in seen:
                    continue
                if len(seen) >= MOST_COMPARED:
                    self.in_part += 1
                    return self._first_near(problem, candidates)
                seen.add(other)
                theirs = int(self._sets.sizes[other])
                if min(size - place, theirs - other_place) >= fewest_shared(size, theirs):
                    candidates.append(other)
        return self._first_near(problem, candidates)

    def _first_near(self, problem: int, candidates: list[int]) -> int:
        return next((other for other in sorted(candidates) if self._is_near(problem, other)), -1)

    def _is_near(self, problem: int, other: int) -> bool:
        """Whether two problems are near by the hashes of their grams, and then by the grams themselves."""
        one, two = self._sets.of(problem), self._sets.of(other)
        if not is_near(len(np.intersect1d(one, two, assume_unique=True)), len(one), len(two)):
            return False
        mine, theirs = (grams_of(words_stored(self._table.text(each)), DUPLICATE_GRAM) for each in (problem, other))
        return is_near(len(mine & theirs), len(mine), len(theirs))
