"""Which words of two texts differ. Pure, and bounded: texts that are long and unlike are not compared to the end."""

import re
from difflib import SequenceMatcher
from typing import Final, NamedTuple

MOST_WORDS: Final = 2_000
"""Words of each text, after what both begin and end with, that are compared; the rest counts as different."""

WORD: Final = re.compile(r"\w+|[^\w\s]")


class WordDifference(NamedTuple):
    """Spans (start, end) in each text that the other text does not have."""

    one: tuple[tuple[int, int], ...]
    other: tuple[tuple[int, int], ...]


def differing(one: str, other: str) -> WordDifference:
    """Return the spans of the words that differ in each text. After a common beginning, words beyond MOST_WORDS all
    count as different."""
    words = [match.span() for match in WORD.finditer(one)], [match.span() for match in WORD.finditer(other)]
    texts = [one[a:b] for a, b in words[0]], [other[a:b] for a, b in words[1]]
    low = common(texts[0], texts[1])
    high = common(texts[0][low:][::-1], texts[1][low:][::-1])
    ends = len(texts[0]) - high, len(texts[1]) - high
    blocks = changed(texts[0][low : ends[0]], texts[1][low : ends[1]])
    spans = (
        tuple(
            (words[side][low + block[side][0]][0], words[side][low + block[side][1] - 1][1])
            for block in blocks
            if block[side][0] < block[side][1]
        )
        for side in (0, 1)
    )
    return WordDifference(*spans)


def common(one: list[str], other: list[str]) -> int:
    """Return the length of the common prefix of two word lists."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def changed(one: list[str], other: list[str]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the runs of words that differ, as spans of each text."""
    heads = one[:MOST_WORDS], other[:MOST_WORDS]
    matcher = SequenceMatcher(None, *heads)
    found = [((a, b), (c, d)) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    rest = (len(heads[0]), len(one)), (len(heads[1]), len(other))
    return [*found, rest] if rest[0][0] < rest[0][1] or rest[1][0] < rest[1][1] else found
