"""A filter that tells which texts some samples cannot contain: the three- and six-byte n-grams that occur in them.
Pure.

A text can only be in a sample that has all of its n-grams. Each n-gram has a bit (Bloom 1970, with one hash), so a
match may be false, and a miss is certain. Case is that of the search: ASCII letters are equal in both cases.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from rwkv_daemon.rules import stored_text

SHORT: Final = 3
LONG: Final = 6
"""Lengths of the n-grams in bytes. Nearly any page of prose has all three letters in a row that words have; six tell
phrases apart."""

SPARSE: Final = 2
"""Bits for each n-gram, at least: then a third of them is set."""

LEAST_BITS: Final = 64


def bits_of(texts: Iterable[str]) -> bytes:
    """Return the filter of some texts: a power of two of bits, as many as they need."""
    pieces: set[bytes] = set()
    every = set(texts)
    # PostgreSQL stores another character in place of NUL, which can be searched for, too
    every |= {stored_text.text_in(text) for text in every}
    for folded in map(fold, every):
        for size in (SHORT, LONG):
            pieces |= {folded[at : at + size] for at in range(len(folded) - size + 1)}
    count = max(LEAST_BITS, 1 << (SPARSE * len(pieces) - 1).bit_length()) if pieces else LEAST_BITS
    bits = bytearray(count // 8)
    for piece in pieces:
        place = zlib.crc32(piece) & (count - 1)
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


def pieces_of(text: str) -> tuple[int, ...]:
    """Return the hashes of the n-grams that a searched text needs; empty for a text that is too short for the
    filter."""
    folded = fold(text)
    if "\0" in text or stored_text.ESCAPE in text:
        return ()
    sizes = (LONG, SHORT) if len(folded) >= LONG else (SHORT,)
    return tuple(
        dict.fromkeys(zlib.crc32(folded[at : at + size]) for size in sizes for at in range(len(folded) - size + 1))
    )


def may_have(bits: bytes, pieces: Sequence[int]) -> bool:
    """Whether a text with these n-grams may be in the texts of the filter."""
    last = 8 * len(bits) - 1
    return all(bits[(piece & last) >> 3] >> (piece & last & 7) & 1 for piece in pieces)


def fold(text: str) -> bytes:
    """Return a text as the search compares it."""
    return text.encode("utf-8", "surrogatepass").lower()
