"""Read English number words as digits, as the package word2number does: other words around them do not matter."""

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
_WORDS = {value: word for word, value in (_SMALL | _TENS).items()}
_LONGEST = 200
_MOST_AROUND = 4


def as_digits(text: str) -> str:
    """Return the number that the words of a text spell, as digits; the text itself if they spell none."""
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


def spelled(text: str) -> int | None:
    """Return the whole number that the words of a short text spell: one run of number words, in the usual form.

    "Twenty-seven apples" is 27. "Two or three", "twenty twenty" and "one of them" spell none.
    """
    if len(text) > _LONGEST or re.search(r"[0-9]", text):
        return None
    words = re.findall(r"[a-z]+", text.casefold())
    named = [index for index, word in enumerate(words) if word in _KNOWN - {"point"}]
    if not named:
        return None
    run = words[named[0] : named[-1] + 1]
    value = _value([word for word in run if word != "and"])
    if value is None or run.count("and") > 1 or [word for word in run if word != "and"] != _in_words(value):
        return None
    around = len(words) - len(run)
    return value if around <= (_MOST_AROUND if value != 1 else 0) else None


def _in_words(value: int) -> list[str]:
    """Return a whole number below 10^12 in words, without "and"."""
    if value < 20:
        return [_WORDS[value]]
    if value < 100:
        return [_WORDS[value - value % 10], *(_in_words(value % 10) if value % 10 else [])]
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            return [*_in_words(value // size), name, *(_in_words(value % size) if value % size else [])]
    return []


def _split(words: list[str]) -> tuple[list[str], bool, list[str]]:
    if "point" not in words:
        return words, False, []
    at = words.index("point")
    return words[:at], True, words[at + 1 :]


def _value(words: list[str]) -> int | None:
    """Return the value of whole-number words; None if they do not form one number."""
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
