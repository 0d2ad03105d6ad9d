"""English number words as digits, as the package word2number reads them: other words around them do not matter."""

import re

_TO_NINETEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TO_NINETY = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_TO_NINETEEN.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TO_NINETY.split(), start=2)}
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_KNOWN = {*_SMALL, *_TENS, *_LARGE, "hundred", "point"}
_LONGEST = 200


def as_digits(text: str) -> str:
    """The number that the words of a text say, as digits; the text itself if they say none."""
    if re.fullmatch(r"[0-9]{1,200}", text):
        return str(int(text))
    spoken = text.replace("-", " ").lower() if len(text) <= _LONGEST else ""
    words = [word for word in spoken.split() if word in _KNOWN]
    whole, point, decimals = _split(words)
    if not (whole or decimals):
        return text
    value = _value(whole)
    if value is None or (point and any(word not in _SMALL or _SMALL[word] > 9 for word in decimals)):
        return text
    if not point or not decimals:
        return str(value)
    return str(value + float("0." + "".join(str(_SMALL[word]) for word in decimals)))


def _split(words: list[str]) -> tuple[list[str], bool, list[str]]:
    if "point" not in words:
        return words, False, []
    at = words.index("point")
    return words[:at], True, words[at + 1 :]


def _value(words: list[str]) -> int | None:
    """The value of whole-number words; None where they do not make one number."""
    total = part = 0
    last = None
    for word in words:
        if word in _LARGE:
            if last is not None and _LARGE[word] >= last:
                return None
            last = _LARGE[word]
            total, part = total + max(part, 1) * last, 0
        elif word == "hundred":
            part = max(part, 1) * 100
        elif word == "point":
            return None
        else:
            part += _SMALL.get(word, 0) + _TENS.get(word, 0)
    return total + part
