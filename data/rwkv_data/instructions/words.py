"""Words: runs of word characters, and the tokens of the Penn Treebank.

The tokens follow NLTK's word tokenizer (Apache-2.0), which follows Robert MacIntyre's sed script for the Treebank: a
fixed order of rewrites that put blanks around what is a token of its own. Ours pads all single characters in one go
and looks for the final period from the end, so that the time is linear in the text.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

from rwkv_data.instructions import sentences

_RUN = re.compile(r"\w+")

# The characters that a rewrite needs (most sentences have few of them), its pattern, and its replacement.
_Rewrite: TypeAlias = tuple[frozenset[str], re.Pattern[str], str]


def _rewrite(needs: str, pattern: str, apart: str = r" \g<0> ") -> _Rewrite:
    return frozenset(needs), re.compile(pattern), apart


_OPENING_QUOTES = (
    _rewrite("«“‘„`", r"[«“‘„]|``?"),
    _rewrite('"', r'^"', " `` "),
    _rewrite("\"'", r"([ (\[{<])(?:\"|'')", r"\1 `` "),
    _rewrite("'", r"(?<!\w)'(?!(?i:re|ve|ll|[mtsdn])\b)(?=\w)", "' "),
)
_PUNCTUATION = (
    _rewrite(":,", r"([:,])([^\d])", r" \1 \2"),
    _rewrite(":,", r"[:,]$"),
    _rewrite(".", r"\.{2,}"),
    _rewrite(";@#$%&?!\u2012\u2013\u2014\u2015", r"[;@#$%&?!\u2012-\u2015]"),
    _rewrite("'", r"([^'])' ", r"\1 ' "),
    _rewrite("*[](){}<>", r"[*\[\](){}<>]"),
    _rewrite("-", r"--"),
)
_CLOSING = (
    _rewrite("»”’", r"[»”’]"),
    _rewrite("'\"", r"''|\"", " '' "),
    _rewrite("'", r"\s+", " "),  # the next two rules look for blanks
    _rewrite("'", r"([^' ])('[sSmMdD]?) ", r"\1 \2 "),
    _rewrite("'", r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
)
_CONTRACTIONS = (
    re.compile(r"(?i)\b(can)(not)\b|\b(d)('ye)\b|\b(gim)(me)\b|\b(gon)(na)\b|\b(got)(ta)\b|\b(lem)(me)\b"),
    re.compile(r"(?i)\b(more)('n)\b|\b(wan)(na)(?=\s)|(?<= )('t)(is|was)\b"),
)
_BEHIND_FINAL_PERIOD = "])}>\"'»”’ "


def runs(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores, which IFEval counts as words.

    Marks that combine with a letter end a run, as in Python's own `re`, with which the published scores were counted.
    NLTK 3.10 matches with another engine and takes them in: Hindi has fewer words there.
    """
    return _RUN.findall(text)


def tokens(text: str) -> list[str]:
    """Return the Treebank tokens of a text, sentence by sentence."""
    return [token for sentence in sentences.split(text) for token in sentence_tokens(sentence)]


def sentence_tokens(sentence: str) -> list[str]:
    """Return the Penn Treebank tokens of one sentence."""
    characters = frozenset(sentence)
    sentence = _apart(sentence, _OPENING_QUOTES, characters)
    if "." in characters:
        sentence = _final_period_apart(sentence)
    sentence = _apart(sentence, _PUNCTUATION, characters)
    sentence = _apart(f" {sentence} ", _CLOSING, characters)
    for pattern in _CONTRACTIONS if len(sentence) >= len(" d'ye ") else ():
        sentence = pattern.sub(lambda match: " " + " ".join(filter(None, match.groups())) + " ", sentence)
    return sentence.split()


def _apart(sentence: str, rewrites: Iterable[_Rewrite], characters: frozenset[str]) -> str:
    for needs, pattern, apart in rewrites:
        if not needs.isdisjoint(characters):
            sentence = pattern.sub(apart, sentence)
    return sentence


def _final_period_apart(sentence: str) -> str:
    """Separate the final period as a token, unless it is part of an ellipsis."""
    body = sentence.rstrip().rstrip(_BEHIND_FINAL_PERIOD)
    if len(body) < 2 or body[-1] != "." or body[-2] == ".":
        return sentence
    return f"{body[:-1]} . {sentence[len(body) :]}"
