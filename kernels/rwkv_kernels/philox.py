"""Philox4x32-10 (Salmon et al., SC'11), the counter-based generator behind every sampled token.

The key is the sample's 64-bit key, low word first; the counter is (position low, position high, 0, 0). Output words 0
and 1 make one 53-bit uniform in [0, 1). Nothing else enters, so neither slot nor step nor batch can change a draw.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
ROUNDS = 10
Words = NDArray[np.uint64]


def philox(counter: Words, key: Words) -> Words:
    """Return the words [n, 4] of counters [n, 4] and keys [n, 2]; all are 32-bit words held in uint64."""
    c0, c1, c2, c3 = counter.T.copy()
    k0, k1 = key.T.copy()
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _SHIFT) ^ c1 ^ k0, p1 & _LOW, (p0 >> _SHIFT) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + np.uint64(_W0)) & _LOW, (k1 + np.uint64(_W1)) & _LOW
    return np.stack((c0, c1, c2, c3), 1)


def uniforms(keys: Sequence[int], positions: Sequence[int]) -> NDArray[np.float64]:
    """Return a uniform in [0, 1) for each (64-bit key, position): [n]."""
    key, position = np.array(keys, np.uint64), np.array(positions, np.uint64)
    zero = np.zeros_like(position)
    counter = np.stack((position & _LOW, position >> _SHIFT, zero, zero), 1)
    words = philox(counter, np.stack((key & _LOW, key >> _SHIFT), 1))
    high, low = words[:, 0] >> np.uint64(5), words[:, 1] >> np.uint64(6)
    return (high * np.uint64(1 << 26) + low).astype(np.float64) * 2.0**-53
