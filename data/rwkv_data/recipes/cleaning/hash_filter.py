"""A table of bits that says of most hashes at once that no benchmark has them (a Bloom filter with two probes).

Searching dozens of indexes for every run of words of a file would take minutes; nearly all runs are in none.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from rwkv_data.recipes.cleaning.hashed_texts import Hashes

MOST_BITS: Final = 28
"""2**28 bits are 32 MiB, enough for 20 million hashes: one in fifty of the others passes."""


_AT_ONCE: Final = 1 << 20


class HashFilter:
    """Hashes, about as many as it is made for."""

    def __init__(self, count: int) -> None:
        self._bits = min(MOST_BITS, max(16, (16 * count).bit_length()))
        self._table = np.zeros(1 << (self._bits - 3), np.uint8)

    def add(self, hashes: Hashes) -> None:
        """Add hashes, of shape [n]; one that is in the filter already changes nothing."""
        for at in range(0, len(hashes), _AT_ONCE):
            for slots in self._probes(hashes[at : at + _AT_ONCE]):
                np.bitwise_or.at(self._table, slots >> np.uint64(3), _bit(slots))

    def may_hold(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which of these hashes may have been added; those that were are among them."""
        first, second = self._probes(hashes)
        return self._is_set(first) & self._is_set(second)

    def _probes(self, hashes: Hashes) -> tuple[Hashes, Hashes]:
        return hashes & np.uint64((1 << self._bits) - 1), hashes >> np.uint64(64 - self._bits)

    def _is_set(self, slots: Hashes) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self._table[slots >> np.uint64(3)] & _bit(slots)) != 0
        return found


def _bit(slots: Hashes) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.left_shift(np.uint64(1), slots & np.uint64(7)).astype(np.uint8)
    return bits
