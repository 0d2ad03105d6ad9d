"""64-bit hashes of runs of words, for many texts at once.

The hash of a run is a polynomial over its bytes modulo 2**64 (Rabin and Karp): with the sums of all beginnings at hand,
any run costs one subtraction and one product, so runs of every size come from the same sums, and no word becomes a
Python object. It depends on the bytes alone: every process and machine finds the same. Two texts may share a hash, and
a hostile one can be made to; whoever finds equal hashes looks at the texts before anything follows from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]

_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_BLANK: Final = 32


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of words: their hashes, in which text each stands, and with which of its words each begins. Ordered by
    text."""

    hashes: Hashes
    texts: Places
    starts: Places

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Return the runs that a mask of shape [runs] chooses, in their order."""
        return type(self)(self.hashes[chosen], self.texts[chosen], self.starts[chosen])

    def different(self) -> Self:
        """Return each run of a text once, ordered by text and hash; the first of equal ones stays."""
        order = np.lexsort((self.starts, self.hashes, self.texts))
        hashes, texts = self.hashes[order], self.texts[order]
        new = np.ones(len(order), bool)
        new[1:] = (hashes[1:] != hashes[:-1]) | (texts[1:] != texts[:-1])
        return type(self)(hashes[new], texts[new], self.starts[order][new])


class HashedTexts:
    """A block of texts, each words with one blank between them. A text without words has no runs."""

    def __init__(self, texts: Sequence[str]) -> None:
        data = np.frombuffer((" ".join(texts) + " ").encode(), np.uint8) if texts else np.empty(0, np.uint8)
        self._ends = np.flatnonzero(data == _BLANK)
        self._starts = np.concatenate([[0], self._ends[:-1] + 1]) if len(self._ends) else self._ends
        self._words = np.fromiter((text.count(" ") + 1 for text in texts), np.int64, len(texts))
        self._first = np.cumsum(self._words) - self._words
        self._text_of_word = np.repeat(np.arange(len(texts)), self._words)
        self._filled = np.fromiter(map(bool, texts), bool, len(texts))
        powers, self._inverses = _powers(len(data))
        self._sums = np.zeros(len(data) + 1, np.uint64)
        np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers, out=self._sums[1:])

    def runs(self, size: int) -> Runs:
        """Return all runs of so many words, in the order in which they stand."""
        last = len(self._ends) - size + 1
        if last <= 0:
            return Runs(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
        words = np.flatnonzero(self._text_of_word[:last] == self._text_of_word[size - 1 :])
        texts = self._text_of_word[words]
        hashes = self._hashes(self._starts[words], self._ends[words + size - 1])
        return Runs(hashes, texts, words - self._first[texts])

    def whole(self) -> Runs:
        """Return each text that has words as one run."""
        texts = np.flatnonzero(self._filled)
        first = self._first[texts]
        hashes = self._hashes(self._starts[first], self._ends[first + self._words[texts] - 1])
        return Runs(hashes, texts, np.zeros(len(texts), np.int64))

    def bags(self, smallest: int) -> Runs:
        """Return the words of each text that has at least so many, in whatever order they stand, as one run."""
        if not len(self._words):
            return self.whole()
        sums = np.add.reduceat(self._hashes(self._starts, self._ends), self._first)
        texts = np.flatnonzero(self._filled & (self._words >= smallest))
        return Runs(sums[texts], texts, np.zeros(len(texts), np.int64))

    def _hashes(self, starts: Places, ends: Places) -> Hashes:
        return _mixed((self._sums[ends] - self._sums[starts]) * self._inverses[starts])


def _mixed(hashes: Hashes) -> Hashes:
    """Spread what differs over all bits (the finalizer of MurmurHash3), because tables are cut by a few of them."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(factor)
    mixed: Hashes = hashes ^ (hashes >> np.uint64(33))
    return mixed


def _powers(length: int) -> tuple[Hashes, Hashes]:
    """Return the powers of the base and of its inverse modulo 2**64, from 0 on; kept for the next block."""
    if len(_KEPT[0]) < length:
        size = max(length, 1 << 16)
        for place, base in enumerate((_BASE, _INVERSE)):
            factors = np.full(size, base, np.uint64)
            factors[0] = 1
            _KEPT[place] = np.multiply.accumulate(factors)
    return _KEPT[0][:length], _KEPT[1][:length]


_KEPT: Final[list[Hashes]] = [np.empty(0, np.uint64), np.empty(0, np.uint64)]
