"""Which texts some samples cannot have, in a few bits: the pieces of three and six bytes that are in them. Pure.

A text is only in a sample that has all of its pieces. Each piece has a bit (Bloom 1970, with one hash), so what is
found here may yet be absent, and what is not found is. Case is that of the search: ASCII letters are one in both.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from rwkv_daemon.rules import stored_text

SHORT: Final = 3
LONG: Final = 6
"""Bytes of a piece. Any page of prose has nearly all three letters that words have; six in a row tell phrases apart."""

SPARSE: Final = 2
"""Bits for each piece, at least: a third of them is set."""

LEAST_BITS: Final = 64


def bits_of(texts: Iterable[str]) -> bytes:
    """The bits of texts: a power of two of them, as many as they need."""
    pieces: set[bytes] = set()
    every = set(texts)
    # PostgreSQL holds another character in the place of NUL: that can be searched for, too
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
    """What a searched text needs, as hashes; nothing for one that these bits say nothing about."""
    folded = fold(text)
    if "\0" in text or stored_text.ESCAPE in text:
        return ()
    sizes = (LONG, SHORT) if len(folded) >= LONG else (SHORT,)
    return tuple(
        dict.fromkeys(zlib.crc32(folded[at : at + size]) for size in sizes for at in range(len(folded) - size + 1))
    )


def may_have(bits: bytes, pieces: Sequence[int]) -> bool:
    """Whether a text with these pieces may be in the texts that the bits are of."""
    last = 8 * len(bits) - 1
    return all(bits[(piece & last) >> 3] >> (piece & last & 7) & 1 for piece in pieces)


def fold(text: str) -> bytes:
    """A text as the search sees it."""
    return text.encode("utf-8", "surrogatepass").lower()
