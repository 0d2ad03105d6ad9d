"""Philox4x32-10 against the known-answer vectors of Random123 (kat_vectors), and the uniforms made of it."""

import numpy as np
import pytest

from rwkv_kernels.philox import philox, uniforms

VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]) -> None:
    counters, keys = np.array([counter] * 3, np.uint64), np.array([key] * 3, np.uint64)
    assert philox(counters, keys).tolist() == [list(words)] * 3


def test_a_uniform_depends_on_its_key_and_position_alone() -> None:
    keys, positions = [0, 5, (1 << 64) - 1, 5], [0, 1 << 40, 7, 2]
    together = uniforms(keys, positions)
    alone = [uniforms([key], [position])[0] for key, position in zip(keys, positions, strict=True)]
    assert together.tolist() == alone
    assert len(set(alone)) == 4


def test_the_words_are_the_published_ones() -> None:
    high, low = 0x6627E8D5 >> 5, 0xE169C58D >> 6
    assert uniforms([0], [0])[0] == (high * 2**26 + low) / 2**53


def test_they_are_uniform() -> None:
    draws = uniforms([3] * 20000, list(range(20000)))
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    chi2 = float(((counts - 1000) ** 2 / 1000).sum())
    assert chi2 < 43.8  # 19 degrees of freedom, p = 0.001
