"""Bytes that are nearly right: what parsers get wrong is seldom noise, and often one step from what they expect."""

import random
from collections.abc import Sequence

NUMBERS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
WORDS = (
    b"",
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\xff",
    b"%00",
    b"..",
    b"../",
    b"nan",
    b"null",
    b"-1",
    b"1e999",
    b"9" * 40,
    b"[" * 3000,
    b'{"a":' * 800,
    b"\xed\xa0\x80",
    b"\\ud800",
    b"A" * 5000,
    b";",
    b":",
    b",",
    b'"',
)


def mutated(
    draw: random.Random, data: bytes, words: Sequence[bytes] = (), *, within: tuple[int, int] | None = None
) -> bytes:
    """The bytes after one to four changes, all of them inside `within` where that is given."""
    low, high = within or (0, len(data))
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        high = min(high, len(found))
        low = min(low, high)
        place = draw.randint(low, high)
        end = min(high, place + draw.choice((1, 1, 2, 4, 8, 40)))
        match draw.randrange(7):
            case 0:
                found[place:end] = draw.randbytes(end - place)
            case 1:
                del found[place:end]
            case 2:
                found[place:place] = found[place:end] * draw.choice((1, 1, 30))
            case 3:
                found[place:end] = draw.choice([*WORDS, *words])
            case 4:
                found[place:place] = draw.choice([*WORDS, *words])
            case 5:
                width = draw.choice((1, 2, 4, 8))
                number = draw.choice(NUMBERS) % (1 << 8 * width)
                found[place : place + width] = number.to_bytes(width, draw.choice(("little", "big")))
            case _:
                if place < len(found):
                    found[place] ^= 1 << draw.randrange(8)
    return bytes(found)
