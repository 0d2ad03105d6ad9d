"""Words: runs of word characters, and the tokens of the Penn Treebank.

The tokens follow NLTK's word tokenizer (Apache-2.0), which follows Robert MacIntyre's sed script for the Treebank: a
fixed order of rewrites that put blanks around what is a token of its own. Ours pads all single characters in one go
and looks for the final period from the end, so that the time is linear in the text.
"""

import re

from rwkv_data.instructions import sentences

_RUN = re.compile(r"\w+")

_OPENING_QUOTES = (
    (re.compile(r"[«“‘„]|``?"), r" \g<0> "),  # noqa: RUF001
    (re.compile(r'^"'), " `` "),
    (re.compile(r"([ (\[{<])(?:\"|'')"), r"\1 `` "),
    (re.compile(r"(?<!\w)'(?!(?i:re|ve|ll|[mtsdn])\b)(?=\w)"), "' "),
)
_PUNCTUATION = (
    (re.compile(r"([:,])([^\d])"), r" \1 \2"),
    (re.compile(r"[:,]$"), r" \g<0> "),
    (re.compile(r"\.{2,}"), r" \g<0> "),
    (re.compile(r"[;@#$%&?!\u2012-\u2015]"), r" \g<0> "),
    (re.compile(r"([^'])' "), r"\1 ' "),
    (re.compile(r"[*\[\](){}<>]"), r" \g<0> "),
    (re.compile(r"--"), " -- "),
)
_CLOSING = (
    (re.compile(r"[»”’]"), r" \g<0> "),  # noqa: RUF001
    (re.compile(r"''|\""), " '' "),
    (re.compile(r"\s+"), " "),
    (re.compile(r"([^' ])('[sSmMdD]?) "), r"\1 \2 "),
    (re.compile(r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) "), r"\1 \2 "),
)
_CONTRACTIONS = (
    re.compile(r"(?i)\b(can)(not)\b|\b(d)('ye)\b|\b(gim)(me)\b|\b(gon)(na)\b|\b(got)(ta)\b|\b(lem)(me)\b"),
    re.compile(r"(?i)\b(more)('n)\b|\b(wan)(na)(?=\s)|(?<= )('t)(is|was)\b"),
)
_PLAIN = re.compile(r"([\w\s]*)([.!?]?)")
_BEHIND_FINAL_PERIOD = "])}>\"'»”’ "  # noqa: RUF001


def runs(text: str) -> list[str]:
    """Runs of letters, digits and underscores: what IFEval counts as words."""
    return _RUN.findall(text)


def tokens(text: str) -> list[str]:
    """The Treebank tokens of a text, sentence by sentence."""
    return [token for sentence in sentences.split(text) for token in sentence_tokens(sentence)]


def sentence_tokens(sentence: str) -> list[str]:
    """The Treebank tokens of one sentence. Most short ones hold nothing that has to be split, and are done at once."""
    if (plain := _PLAIN.fullmatch(sentence)) and not any(pattern.search(sentence) for pattern in _CONTRACTIONS):
        return [*plain[1].split(), *plain[2]]
    for pattern, apart in _OPENING_QUOTES:
        sentence = pattern.sub(apart, sentence)
    sentence = _final_period_apart(sentence)
    for pattern, apart in _PUNCTUATION:
        sentence = pattern.sub(apart, sentence)
    sentence = f" {sentence} "
    for pattern, apart in _CLOSING:
        sentence = pattern.sub(apart, sentence)
    for pattern in _CONTRACTIONS:
        sentence = pattern.sub(lambda match: " " + " ".join(filter(None, match.groups())) + " ", sentence)
    return sentence.split()


def _final_period_apart(sentence: str) -> str:
    """The last period is a token, unless it is part of an ellipsis."""
    body = sentence.rstrip()
    body = body.rstrip(_BEHIND_FINAL_PERIOD)
    if len(body) < 2 or body[-1] != "." or body[-2] == ".":
        return sentence
    return f"{body[:-1]} . {sentence[len(body) :]}"
