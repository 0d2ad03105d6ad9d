"""IFBench's rules that count something (allenai/IFBench, Apache-2.0): own code, the same verdicts."""

import re
import string
from collections.abc import Mapping
from typing import Final

from rwkv_data.instructions import words
from rwkv_data.instructions.ifbench_lists import COORDINATING_CONJUNCTIONS, PERSON_NAMES, PRONOUNS
from rwkv_data.instructions.rule import InstructionRule

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_AROUND_WORDS = string.punctuation + " "
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def word_count_range(text: str, min_words: int, max_words: int) -> bool:
    """Whether the number of words is between both bounds, these included."""
    return min_words <= len(words.runs(text)) <= max_words


def unique_word_count(text: str, N: int) -> bool:
    """Whether there are at least N different words, ignoring case and punctuation around them."""
    return len({word.strip(_AROUND_WORDS) for word in text.lower().split()}) >= N


def conjunctions(text: str, small_n: int) -> bool:
    """Whether there are at least `small_n` different coordinating conjunctions. As upstream, "and", "And" and "and,"
    are three."""
    found = {word for word in text.split() if word.strip(_AROUND_WORDS).lower() in COORDINATING_CONJUNCTIONS}
    return len(found) >= small_n


def person_names(text: str, N: int) -> bool:
    """Whether there are at least N different names of the list."""
    return sum(re.search(rf"\b{name}\b", text) is not None for name in PERSON_NAMES) >= N


def numbers(text: str, N: int) -> bool:
    """Whether there are exactly N numbers; `1,000.50` is one."""
    return len(re.findall(r"\d+", text.translate(_WITHOUT_PUNCTUATION))) == N


def punctuation(text: str) -> bool:
    """Whether there is an interrobang, and each of `. , ! ? ; :` beside it."""
    if not any(mark in text for mark in ("!?", "?!", "‽")):
        return False
    rest = text.replace("?!", "", 1)
    rest = text.replace("!?", "", 1) if len(rest) == len(text) else rest
    return all(mark in rest for mark in ".,!?;:")


def pronouns(text: str, N: int) -> bool:
    """Whether there are at least N pronouns; `she/her` is two."""
    return sum(token in PRONOUNS for token in words.tokens(text.replace("/", " ").lower())) >= N


def words_japanese(text: str, N: int) -> bool:
    """Whether every Nth word holds a Japanese character; a number or bare punctuation is let pass. A step of 0 is an
    error."""
    nth = (word.strip(_AROUND_WORDS) for word in text.split()[N - 1 :: N])
    return all(not word or word.isdigit() or _JAPANESE.search(word) for word in nth)


def keywords_multiple(text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str) -> bool:
    """Whether the five keywords occur once, twice, three, five and seven times, inside longer words too."""
    keywords, lower = (keyword1, keyword2, keyword3, keyword4, keyword5), text.lower()
    times = zip(keywords, (1, 2, 3, 5, 7), strict=True)
    return all(lower.count(keyword.strip().lower()) == count for keyword, count in times)


RULES: Final[Mapping[str, InstructionRule]] = {
    "count:word_count_range": word_count_range,
    "count:unique_word_count": unique_word_count,
    "count:conjunctions": conjunctions,
    "count:person_names": person_names,
    "count:numbers": numbers,
    "count:punctuation": punctuation,
    "count:pronouns": pronouns,
    "count:words_japanese": words_japanese,
    "count:keywords_multiple": keywords_multiple,
}
