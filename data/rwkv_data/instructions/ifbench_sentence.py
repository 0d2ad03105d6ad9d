"""IFBench's rules about sentences and about shares of the text (allenai/IFBench, Apache-2.0): own code, the same
verdicts wherever the sentences are split the same way."""

import re
import string
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from rwkv_data.instructions import sentences, words
from rwkv_data.instructions.ifbench_lists import STOP_WORDS
from rwkv_data.instructions.rule import InstructionRule

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def stop_words(text: str, percentage: int) -> bool:
    """Whether at most this share of the words are stop words."""
    found = words.runs(text)
    return bool(found) and sum(word.lower() in STOP_WORDS for word in found) / len(found) * 100 <= percentage


def _ending_with(text: str) -> dict[str, int]:
    found = sentences.split(text)
    return {mark: sum(sentence.endswith(mark) for sentence in found) for mark in ".?!"}


def sentence_type(text: str) -> bool:
    """Whether there are twice as many statements as questions, by the marks that end sentences."""
    count = _ending_with(text)
    return count["."] == 2 * count["?"]


def sentence_balance(text: str) -> bool:
    """Whether there are as many statements as questions as exclamations."""
    count = _ending_with(text)
    return count["."] == count["?"] == count["!"]


def overlap(text: str, reference_text: str, percentage: int) -> bool:
    """Whether this share of the response's different trigrams (of characters) occurs in the reference, within 2
    points."""
    mine, theirs = _trigrams(text), _trigrams(reference_text)
    return bool(mine) and percentage - 2 <= len(mine & theirs) / len(mine) * 100 <= percentage + 2


def _trigrams(text: str) -> set[str]:
    return {text[at : at + 3] for at in range(len(text) - 2)}


def sentence_words(text: str) -> bool:
    """Whether there are three sentences of the same length. As upstream, that their words differ is not checked."""
    found = [len(sentence.strip()) for sentence in sentences.split(text)]
    return len(found) == 3 and len(set(found)) == 1


def alliteration_increment(text: str) -> bool:
    """Whether each sentence has more alliterative words than the one before."""
    counts = [_alliterative(sentence) for sentence in sentences.split(text)]
    return all(before < behind for before, behind in pairwise(counts))


def _alliterative(sentence: str) -> int:
    """Return the number of words that stand in runs of words with the same first letter."""
    clean = (word.lstrip(string.punctuation + " ") for word in sentence.lower().split())
    letters = [word[0] for word in clean if word]
    same = [False, *(one == next_one for one, next_one in pairwise(letters))]
    starts = sum(now and not before for before, now in pairwise(same))
    return sum(same) + starts


def keyword(text: str, word: str, N: int) -> bool:
    """Whether a keyword stands in the Nth sentence."""
    found = sentences.split(text)
    if len(found) < N:
        return False
    return re.search(rf"\b{re.escape(word)}\b", found[N - 1], re.IGNORECASE) is not None


def increment(text: str, small_n: int) -> bool:
    """Whether each sentence has exactly so many words more than the one before."""
    counts = [len(sentence.translate(_WITHOUT_PUNCTUATION).split()) for sentence in sentences.split(text)]
    return all(behind - before == small_n for before, behind in pairwise(counts))


RULES: Final[Mapping[str, InstructionRule]] = {
    "ratio:stop_words": stop_words,
    "ratio:sentence_type": sentence_type,
    "ratio:sentence_balance": sentence_balance,
    "ratio:overlap": overlap,
    "ratio:sentence_words": sentence_words,
    "sentence:alliteration_increment": alliteration_increment,
    "sentence:keyword": keyword,
    "sentence:increment": increment,
}
