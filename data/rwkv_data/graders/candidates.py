r"""Whether an answer commits to one candidate: one policy for numbers, maths, letters and BBH (docs/graders.md).

An answer that names several candidates ("2 or 3"), denies one ("not 10") or defines itself by an exclusion ("all but
3") gives no single answer. Where the reference is itself several answers, that very set is right.
"""

import re

NEAR = 80
"""How far from a candidate, in characters, a word can still deny it or take it back."""


def _word(alternatives: str) -> str:
    """Return a pattern for any of some words, but not as a part of a longer word."""
    return rf"(?<![a-zA-Z])(?:{alternatives})(?![a-zA-Z])"


_CONTRACTED = r"(?:is|are|was|were|ca|wo|do|does|did|could|would|should)n['’]?t"

ALTERNATIVE = "(?:" + _word(r"or(?!\s+so\b)|either|versus|vs") + r"|\\lor(?![a-zA-Z])|\\vee(?![a-zA-Z])|或|还是)"
"""A word between two candidates of which only one can be right."""

JOIN = rf"(?:{ALTERNATIVE}|{_word('and|to|through|both')}|&|[、~～]|和|与|至|到)"
"""A word between two answers, of which both are meant, or a range."""

_NOT = _word(r"not(?!\s+only\b)|never|neither|nor|cannot|without|" + _CONTRACTED)
DENIAL = rf"(?:{_NOT}|\\neq?(?![a-zA-Z])|≠|不是|不能|不可能|不等于|不选|并非|而非)"
"""A word that says that what follows is not the answer."""

_LEFT_OUT = r"except|excepting|excluding|excludes|besides|(?:other|rather)\s+than|all\s+but|apart\s+from|instead\s+of"
EXCLUSION = rf"(?:{_word(_LEFT_OUT)}|除了|除去|除外|以外)"
"""A word that says that what follows is left out of the answer."""

WITHDRAWAL = (
    r"(?:(?:['’]s|is|are|was|were|would\s+be|must\s+be|looks|seems)\s+(?:clearly\s+|also\s+|definitely\s+)?"
    r"(?:not|never|wrong|incorrect|false|impossible|excluded|ruled\s+out|eliminated)(?![a-zA-Z])"
    rf"|{_CONTRACTED}(?![a-zA-Z])|cannot(?![a-zA-Z])|不对|不正确|是错|错误|不是|不可能)"
)
"""A phrase that says that what precedes it is not the answer."""

_NEW_CLAUSE = _word("but|so|hence|thus|therefore|is|are|was|were|equals|makes|gives")
_CLAUSE = rf"(?:(?!{_NEW_CLAUSE})[^,;.!?=\d，。；\n]){{0,60}}"
_NOUN = r"(?!(?:because|since|as|and|but|if|so|which|while|then)\b)[a-z]{2,20}"
UNITS = r"(?:\s*[a-zA-Z%°$\\{}()^]{1,20}){0,3}?"
"""The text allowed between a candidate and the word that joins it to another: up to three words or signs."""

_DENIED = re.compile(rf"(?:{DENIAL}|{EXCLUSION}){_CLAUSE}$", re.IGNORECASE)
_WITHDRAWN = re.compile(rf"[\s)}}\]$*.\"'”’]{{0,6}}(?:{_NOUN}\s{{1,3}}){{0,2}}?{WITHDRAWAL}", re.IGNORECASE)
_JOINED = re.compile(
    rf"[^.;!?\n]{{0,60}}?{ALTERNATIVE}[^.;!?\n]{{0,40}}"
    rf"|{UNITS}\s*{JOIN}[\s({{\[$}}-]*(?:[a-zA-Z]\w?\s*=\s*)?",
    re.IGNORECASE,
)
_OFFERED_BEFORE = re.compile(rf"{ALTERNATIVE}[\s({{$}}\[-]*(?:[a-zA-Z]\w?\s*=\s*)?$", re.IGNORECASE)
_OFFERED_BEHIND = re.compile(rf"{UNITS}\s*{ALTERNATIVE}", re.IGNORECASE)
_EXCLUDES = re.compile(EXCLUSION, re.IGNORECASE)
_ALTERNATIVES = re.compile(ALTERNATIVE, re.IGNORECASE)
_DENIES = re.compile(DENIAL, re.IGNORECASE)


def around(text: str, candidate: re.Match[str]) -> tuple[str, str]:
    """Return the text near a candidate: before it, and after it."""
    return text[max(0, candidate.start() - NEAR) : candidate.start()], text[candidate.end() : candidate.end() + NEAR]


def refused(before: str, behind: str) -> bool:
    """Whether a candidate is denied by the clause that leads to it, or taken back by what follows."""
    return _DENIED.search(before) is not None or withdrawn(behind)


def offered(before: str, behind: str) -> bool:
    """Whether a candidate is one of several: "Ted or 540", "540 or Ted"."""
    return _OFFERED_BEFORE.search(before) is not None or _OFFERED_BEHIND.match(behind) is not None


def withdrawn(behind: str) -> bool:
    """Whether the text behind a candidate takes it back."""
    return _WITHDRAWN.match(behind[:NEAR]) is not None


def joined(between: str) -> bool:
    """Whether the text between two candidates makes them a choice, a range or a pair."""
    return _JOINED.fullmatch(between) is not None


def excludes(text: str) -> bool:
    """Whether a text says what the answer leaves out."""
    return _EXCLUDES.search(text) is not None


def denies(text: str) -> bool:
    """Whether a text says what the answer is not, or what it leaves out."""
    return _DENIES.search(text) is not None or _EXCLUDES.search(text) is not None


def objection(gold: str, answer: str) -> str:
    """Return why an answer does not commit to one candidate as its reference does; empty if it does."""
    for reason, pattern in (
        ("it names several candidates", _ALTERNATIVES),
        ("it says what the answer is not", _DENIES),
        ("it says what the answer leaves out", _EXCLUDES),
    ):
        if pattern.search(answer) and not pattern.search(gold):
            return reason
    return ""
