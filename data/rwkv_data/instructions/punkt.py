"""Where sentences end: the Punkt algorithm (Kiss and Strunk 2006, Computational Linguistics 32) with a given model.

The classes of characters and the order of the heuristics are those of NLTK 3.10's sentence tokenizer (Apache-2.0), so
that counts of sentences agree with it; the code is our own, needs no NLTK, and takes time linear in the text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

_CLOSING = r"[)\";}\]*:@'({\[‘’“”«»?!]"
_END = re.compile(rf"[.?!](?=(?P<behind>{_CLOSING}|\s+(?P<next>\S+)))")
_RUNS_ON = r"--|\.\.|\.\s\.\s\."
_WORD = re.compile(
    rf"-{{2,}}|\.{{2,}}|(?:\.\s){{2,}}\."
    rf"|(?=[^(\"`{{\[:;&#*@)}}\]\-,])\S+?(?=\s|$|{_CLOSING}|{_RUNS_ON}|,(?=$|\s|{_CLOSING}|{_RUNS_ON}))"
    r"|\S"
)
_LEFT_BEHIND = re.compile(r"[\"')\]}‘’“”«»]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
_LETTER = re.compile(r"[^\W\d]")
_NUMBER_TYPE = "##number##"
_BLANKS = " \t\n\r\x0b\x0c"

# The case and position in which a word occurred in a model's training text (bits of `Model.seen`).
_MIDDLE_UPPER = 1 << 2
_ANY_UPPER = 1 << 1 | 1 << 2 | 1 << 3
_FIRST_LOWER = 1 << 4
_ANY_LOWER = 1 << 4 | 1 << 5 | 1 << 6
LOWER_BUT_FIRST: Final = 1 << 1 | 1 << 5
"""A word that has a capital letter only where it starts a sentence."""


@dataclass(frozen=True, slots=True)
class Model:
    """A Punkt model of a language. `seen` holds, as bits, the cases and positions in which a word occurred."""

    name: str
    abbreviations: frozenset[str]
    starters: frozenset[str]
    collocations: frozenset[tuple[str, str]] = frozenset()
    seen: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Token:
    """A word; `type` is its lower case, or one type for all numbers."""

    text: str
    type: str
    ends: bool = False
    abbreviation: bool = False
    ellipsis: bool = False

    @property
    def type_without_period(self) -> str:
        return self.type[:-1] if len(self.type) > 1 and self.type.endswith(".") else self.type

    @property
    def type_as_start(self) -> str:
        return self.type_without_period if self.ends else self.type


def split(text: str, model: Model) -> list[str]:
    """Return the sentences of a text, without the blanks between them."""
    return [text[start:stop] for start, stop in _realigned(text, list(_spans(text, model))) if stop > start]


def _spans(text: str, model: Model) -> Iterator[tuple[int, int]]:
    """Yield the spans of sentences. Exclamation and question marks always end one; a period depends on its context."""
    start = 0
    for match, word_start in _candidates(text):
        if match[0] != "." or _breaks(text[word_start : match.end()] + match["behind"], model):
            yield start, match.end()
            start = match.start("next") if match["next"] else match.end()
    yield start, len(text.rstrip())


def _candidates(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the last possible end of a sentence in each word, and the offset at which the word starts."""
    last: tuple[re.Match[str], int] | None = None
    start = stop = 0
    for match in _END.finditer(text):
        blank = match.start() - 1
        while blank > stop and text[blank] not in _BLANKS:
            blank -= 1
        word_start = blank + 1 if blank > stop else start
        if last and last[0].start() <= word_start:
            yield last
        last, start, stop = (match, word_start), word_start, match.start()
    if last:
        yield last


def _realigned(text: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans with closing quotes and brackets moved to the sentence that they close."""
    taken = 0
    for (start, stop), behind in zip(spans, [*spans[1:], None], strict=True):
        found = _LEFT_BEHIND.match(text, *behind) if behind else None
        if behind and found:
            yield start + taken, behind[0] + len(found[0].rstrip())
            taken = len(found[0])
        else:
            yield start + taken, stop
            taken = 0


def _breaks(context: str, model: Model) -> bool:
    """Whether a sentence ends inside this short stretch (not merely with it)."""
    tokens = [_classified(word, model) for line in context.split("\n") for word in _WORD.findall(line)]
    for token, behind in pairwise(tokens):
        if token.text.endswith("."):
            _reconsider(token, behind, model)
        if token.ends:
            return True
    return False


def _classified(word: str, model: Model) -> _Token:
    """Classify a word by itself: the first pass."""
    lower = word.lower()
    token = _Token(word, _NUMBER_TYPE if _NUMBER.fullmatch(lower) else lower)
    if word in {".", "?", "!"}:
        token.ends = True
    elif word.endswith(".."):
        token.ellipsis = not word.strip(".")
    elif word.endswith("."):
        stem = lower[:-1]
        token.abbreviation = stem in model.abbreviations or stem.rpartition("-")[2] in model.abbreviations
        token.ends = not token.abbreviation
    return token


def _reconsider(token: _Token, behind: _Token, model: Model) -> None:
    """Reclassify a word by the next one: collocations, abbreviations, then initials and ordinal numbers. The second
    pass."""
    kind, next_kind = token.type_without_period, behind.type_as_start
    initial = len(token.text) == 2 and _LETTER.match(token.text) is not None
    if (kind, next_kind) in model.collocations:
        token.ends, token.abbreviation = False, True
        return
    unsure = (token.abbreviation or token.ellipsis) and not initial
    if not unsure and not initial and kind != _NUMBER_TYPE:
        return
    starts, upper = _starts_sentence(behind, model), behind.text[0].isupper()
    if unsure and (starts or (upper and next_kind in model.starters)):
        token.ends = True
        return
    if not initial and kind != _NUMBER_TYPE:
        return
    never_lower = upper and not model.seen.get(next_kind, 0) & _ANY_LOWER
    if starts is False or (starts is None and initial and never_lower):
        token.ends, token.abbreviation = False, True


def _starts_sentence(token: _Token, model: Model) -> bool | None:
    """Return whether a word starts a sentence, by its case; None if that is not decisive."""
    if token.text in {";", ":", ",", ".", "!", "?"}:
        return False
    seen = model.seen.get(token.type_as_start, 0)
    if token.text[0].isupper() and seen & _ANY_LOWER and not seen & _MIDDLE_UPPER:
        return True
    if token.text[0].islower() and (seen & _ANY_UPPER or not seen & _FIRST_LOWER):
        return False
    return None
