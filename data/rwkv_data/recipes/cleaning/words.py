r"""The form in which texts are compared: their words, one blank between them.

NFKC, lower case, and a blank for everything that is no letter, mark or digit. So `$\frac{1}{2}$` is "frac 1 2", and
signs do not count: "17+25" and "17-25" are both "17 25". Characters that are not seen (soft hyphens, zero-width marks,
variation selectors, direction marks, fillers) are taken out without a blank, and before NFKC: one between a letter and
its accent would keep the two apart.

Scripts that put no blanks between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan and their kin): each
character is a word of its own, or a sentence would be one word and nothing would ever match. A gram of them is
therefore shorter in meaning than one of English words: 13 characters are about 8 Chinese words. Korean has blanks.
"""

import re
import unicodedata
from bisect import bisect_right
from typing import Final

_WITHOUT_BLANKS: Final = (
    (0x0E00, 0x1000),  # Thai, Lao, Tibetan
    (0x1000, 0x10A0),  # Burmese
    (0x1780, 0x1800),  # Khmer
    (0x1950, 0x1AB0),  # Tai Le, New Tai Lue, Tai Tham
    (0x1B00, 0x1B80),  # Balinese
    (0x2E80, 0x3100),  # radicals, Hiragana, Katakana
    (0x31F0, 0x3200),  # small Katakana
    (0x3400, 0xA000),  # Chinese characters, and Yijing signs, which are blanks anyway
    (0xA980, 0xAA00),  # Javanese, Burmese
    (0xAA60, 0xAAE0),  # Burmese, Tai Viet
    (0xF900, 0xFB00),  # Chinese characters
    (0x1B000, 0x1B170),  # Kana
    (0x20000, 0x40000),  # Chinese characters
)
"""Ranges of code points of scripts whose words are not set apart by blanks."""
_STARTS: Final = [start for start, _ in _WITHOUT_BLANKS]
_JOINER: Final = "\N{COMBINING GRAPHEME JOINER}"
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]+"
)
"""Characters that no reader sees (Default_Ignorable_Code_Point of the Unicode Character Database, but for musical and
shorthand signs)."""
_MANY_MARKS: Final = re.compile(r"(?:[^\w\s]|[\uff9e\uff9f]){30}")
"""Python's NFKC takes the square of the length of a run of marks: minutes for a megabyte of them. A joiner after every
30 ends the run, as in UAX #15's Stream-Safe Text Format; no language has so many. Signs may be among them."""
_BETWEEN_NUMBERS: Final = re.compile(r"(\d) (?=\d)")
_SIGNS: Final = re.compile(r"[+*/^<>=%√×÷·]|-(?![^\W\d_]{2})|(?<![^\W\d_]{2})-|(?<=[\d)])!")
"""A minus counts unless both its sides are words, as in "two-digit"."""


class _Spacing(dict[int, str]):
    """What stands for a code point; found when it is first met, because there are a million of them."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _spaced(code)
        return found


def _spaced(code: int) -> str:
    char = chr(code)
    category = unicodedata.category(char)
    if category == "Cf" or char == _JOINER:
        return ""
    if category[0] not in "LMN":
        return " "
    return f" {char} " if category[0] != "N" and _is_word_by_itself(code) else char


def _is_word_by_itself(code: int) -> bool:
    place = bisect_right(_STARTS, code) - 1
    return place >= 0 and code < _WITHOUT_BLANKS[place][1]


_SPACING: Final = _Spacing()


def _compatible(text: str) -> str:
    """Return the NFKC of a text without what is not seen in it."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _MANY_MARKS.sub(rf"\g<0>{_JOINER}", _UNSEEN.sub("", text)))


def words_of(text: str) -> str:
    """Return the words of a text with one blank between them; empty if it has none."""
    return " ".join(_compatible(text).lower().translate(_SPACING).split())


def squeezed(words: str) -> str:
    """Return words without the blanks between them, but for those between digits: the form in which equality is found.
    "2 x" is "2x", however a formula was spaced; "3 14" stays apart from "31 4"."""
    return _BETWEEN_NUMBERS.sub(r"\1\n", words).replace(" ", "").replace("\n", " ")


def signs_of(text: str) -> str:
    """Return the signs of arithmetic in a text, without the hyphens inside words: what tells "17+25" from "17-25"."""
    return "".join(_SIGNS.findall(_compatible(text).replace("\N{MINUS SIGN}", "-")))


def grams_of(words: str, size: int) -> set[str]:
    """Return the different runs of so many words; none if there are fewer words."""
    found = words.split()
    return {" ".join(found[at : at + size]) for at in range(len(found) - size + 1)}
