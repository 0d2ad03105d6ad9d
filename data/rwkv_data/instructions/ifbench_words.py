"""IFBench's rules about single words (allenai/IFBench, Apache-2.0): own code, the same verdicts but for this:

- `words:start_verb` looks up the first word instead of tagging it (see `english_verbs`).
- Syllables are counted by `syllapy`, as upstream; its word list is part of the package.
"""

import string
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from rwkv_data.instructions import english_verbs, sentences, words
from rwkv_data.instructions.rule import InstructionRule

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_AROUND_WORDS = string.punctuation + " "
_LETTERS = string.ascii_lowercase
_CONSONANTS = frozenset(_LETTERS) - frozenset("aeiou")
_PRIMES = frozenset({2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97})


def _bare(text: str) -> list[str]:
    """Return the words of a text without any punctuation."""
    return text.translate(_WITHOUT_PUNCTUATION).split()


def alphabet(text: str) -> bool:
    """Whether each word starts with the next letter of the alphabet."""
    letters = [word[0] for word in _bare(text.lower())]
    if not letters or letters[0] not in _LETTERS:
        return False
    start = _LETTERS.index(letters[0])
    return all(letter == _LETTERS[(start + at) % 26] for at, letter in enumerate(letters))


def vowel(text: str) -> bool:
    """Whether the text is one paragraph with at most three different vowels."""
    text = text.strip()
    return "\n" not in text and len(set("aeiou") & set(text.lower())) <= 3


def consonants(text: str) -> bool:
    """Whether every word has two consonants in a row."""
    return all(_has_cluster(word) for word in text.lower().split())


def _has_cluster(word: str) -> bool:
    return any(one in _CONSONANTS and other in _CONSONANTS for one, other in pairwise(word))


def palindrome(text: str) -> bool:
    """Whether there are ten palindromes of five letters or more."""
    return sum(len(word) >= 5 and word == word[::-1] for word in _bare(text.lower())) >= 10


def prime_lengths(text: str) -> bool:
    """Whether the length of every word is a prime below 100."""
    return all(len(word) in _PRIMES for word in _bare(text))


def start_verb(text: str) -> bool:
    """Whether the first word is a verb."""
    first = [token for sentence in sentences.split(text)[:1] for token in words.sentence_tokens(sentence)]
    return bool(first) and english_verbs.is_verb(first[0])


def repeats(text: str, small_n: int) -> bool:
    """Whether no word occurs more than `small_n` times."""
    return max(Counter(_bare(text.lower())).values(), default=0) <= small_n


def odd_even_syllables(text: str) -> bool:
    """Whether words with odd and even numbers of syllables alternate."""
    import syllapy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    parities = (syllapy.count(word) % 2 for word in _bare(text.lower()))
    return all(one != other for one, other in pairwise(parities))


def last_first(text: str) -> bool:
    """Whether the last word of each sentence is the first of the next."""
    found = [sentence.lower() for sentence in sentences.split(text)]
    return all(_last_word(one) == _first_word(other) != "" for one, other in pairwise(found))


def _last_word(sentence: str) -> str:
    return (sentence.rstrip(_AROUND_WORDS).split() or [""])[-1]


def _first_word(sentence: str) -> str:
    return (sentence.lstrip(_AROUND_WORDS).split() or [""])[0]


def paragraph_last_first(text: str) -> bool:
    """Whether each line ends with the word that it starts with."""
    lines = (line.strip().lower().strip(_AROUND_WORDS).split() for line in text.split("\n"))
    return all(line[0] == line[-1] for line in lines if line)


def no_consecutive(text: str) -> bool:
    """Whether no two words in a row start with the same letter."""
    return all(one[0] != other[0] for one, other in pairwise(_bare(text.lower())))


def keywords_specific_position(text: str, keyword: str, n: int, m: int) -> bool:
    """Whether a keyword is the mth word of the nth sentence."""
    found = sentences.split(text)
    if len(found) < n:
        return False
    tokens = [token for token in words.tokens(found[n - 1]) if any(map(str.isalnum, token))]
    return len(tokens) >= m and tokens[m - 1].lower() == keyword.strip().lower()


def words_position(text: str, keyword: str) -> bool:
    """Whether a keyword is the second word and the second to last, final punctuation aside."""
    tokens, wanted = [token.lower() for token in words.tokens(text)], keyword.strip().lower()
    if tokens and tokens[-1] in string.punctuation:
        tokens.pop()
    return len(tokens) >= 2 and tokens[1] == wanted == tokens[-2]


RULES: Final[Mapping[str, InstructionRule]] = {
    "words:alphabet": alphabet,
    "words:vowel": vowel,
    "words:consonants": consonants,
    "words:palindrome": palindrome,
    "words:prime_lengths": prime_lengths,
    "words:start_verb": start_verb,
    "words:repeats": repeats,
    "words:odd_even_syllables": odd_even_syllables,
    "words:last_first": last_first,
    "words:paragraph_last_first": paragraph_last_first,
    "words:no_consecutive": no_consecutive,
    "words:keywords_specific_position": keywords_specific_position,
    "words:words_position": words_position,
}
