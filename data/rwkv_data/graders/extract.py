r"""Which part of a completion is its answer: a chain of rules, of which the first that finds something counts.

`of_box` is for an answer stage whose prompt has opened `\boxed{`; `of_text` for a whole free completion. Of one that
thinks first only what follows the last `</think>` is read. The chain of `of_text`, by the name of the route:

1. `boxed`: the last `\boxed{...}` or `\fbox{...}` (see boxed.last_box).
2. `sentence`: what follows the last "the answer is", "Answer:", "答案是" ..., up to the end of its sentence or formula.
   "Final Answer: The final answer is $X$. I hope it is correct." is one of them.
3. `short`: the whole text, if it is one short line without words.
4. `formula`: the last `$...$`, `\(...\)` or `\[...\]`, if no number stands behind it.
5. `number`: the last number of the text.

A formula or number that is denied or taken back is passed over, and of two that are joined none is taken ("$2$ or $3$",
see candidates); nor is a sentence that denies what it announces ("I do not think that the answer is 18").

All rules look at the last 20,000 characters alone, and take time linear in them.
"""

import re
from dataclasses import dataclass

from rwkv_data.graders import candidates
from rwkv_data.graders.maths.boxed import inside_box, last_box, open_groups

_WINDOW = 20_000
_SHORT = 80
_LONGEST = 400
_ANCHOR = re.compile(
    r"(?:final\s+answer|\banswer)\s{0,3}(?:\([^()\n]{0,40}\)|to\s[^.:\n]{1,80}?|of\s[^.:\n]{1,80}?)?"
    r"(?:\*{0,2}\s{0,3}:\s{0,3}\*{0,2}|\s{1,3}(?:is|are|was|equals|would\s+be|must\s+be|will\s+be)\b\s{0,3}:?)"
    r"|(?:最终|最后)?(?:答案|结果)\s{0,3}(?:应该|就)?(?:是|为|等于|[:：])\s{0,3}[:：]?|####"
    r"|故选|应选|(?:所以|因此)?选(?=\s{0,3}[A-Z(（])",
    re.IGNORECASE,
)
_DISCLAIMED = re.compile(
    r"(?:(?<![a-zA-Z])not|n['’]t|cannot)\s+(?:think|believe|say|claim|agree|mean|true|right|correct|the\s+case)(?:\s+that)?"
    r"(?:\s+(?:the|my|this|correct|right)){0,2}\s*$",
    re.IGNORECASE,
)
_MARKS = re.compile(r"^[\s*_:：=]+")
_OPENERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_END = re.compile(r"\n|。|；|[.!?](?=[\s*]|$)|\bI hope it is\b")
_MORE = re.compile(r"[$\d]|\\\(|\\\[")
_WORDS = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_FORMULA = re.compile(r"\$\$(.{1,400}?)\$\$|\$([^$\n]{1,400})\$|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))(?:/\d+)?%?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """The answer as text, and the rule that found it. Both are empty if there is none."""

    text: str = ""
    route: str = ""


def of_box(text: str) -> ExtractedAnswer:
    """Return the content of the box that the prompt has opened, closing groups whose brace the stop token swallowed."""
    content = inside_box(text[:_WINDOW])
    return ExtractedAnswer(content + "}" * open_groups(content), "boxed") if content else ExtractedAnswer()


def of_text(text: str) -> ExtractedAnswer:
    """Return the answer of a whole completion, by the first rule of the chain that finds one; empty if none does."""
    tail = after_thinking(text)[-_WINDOW:]
    for route, rule in _CHAIN:
        if found := rule(tail):
            return ExtractedAnswer(found, route)
    return ExtractedAnswer()


def after_thinking(text: str) -> str:
    """Return what follows the last `</think>`; the whole text if there is none."""
    return text.rpartition("</think>")[2]


def _boxed(text: str) -> str:
    return last_box(text) or ""


def sentence(text: str) -> str:
    """Return what the last sentence that announces an answer says, without marks and dollars around it."""
    for anchor in reversed(list(_ANCHOR.finditer(text))):
        if _DISCLAIMED.search(text, max(0, anchor.start() - candidates.NEAR), anchor.start()):
            continue
        rest = _MARKS.sub("", text[anchor.end() : anchor.end() + _LONGEST])
        if found := _formula_at_start(rest) or bare(_END.split(rest, maxsplit=1)[0]):
            return found
    return ""


def _formula_at_start(text: str) -> str:
    """Return the formula that a text begins with, unless its sentence holds another one or another number."""
    for opening, closing in _OPENERS:
        if text.startswith(opening):
            formula, closed, behind = text[len(opening) :].partition(closing)
            more = _MORE.search(_END.split(behind, maxsplit=1)[0])
            return bare(formula) if closed and not more else ""
    return ""


def bare(text: str) -> str:
    """Return the text without the marks, dollars and full stops around it."""
    text = text.strip().strip("*_").strip()
    for opening, closing in _OPENERS:
        inner = text[len(opening) : -len(closing)]
        around = len(text) > len(opening + closing) and text.startswith(opening) and text.endswith(closing)
        if around and opening not in inner and closing not in inner:
            return inner.strip().rstrip(".,").strip()
    return text.rstrip(".,;:").strip()


def _short(text: str) -> str:
    line = text.strip()
    return bare(line) if len(line) <= _SHORT and "\n" not in line and not _WORDS.search(line) else ""


def _formula(text: str) -> str:
    last = _last(text, list(_FORMULA.finditer(text)))
    if last is None or _NUMBER.search(text, last.end()):
        return ""
    return bare(next(group for group in last.groups() if group))


def _last_number(text: str) -> str:
    last = _last(text, list(_NUMBER.finditer(text)))
    return last[0] if last is not None and len(last[0]) <= _LONGEST else ""


def _last(text: str, found: list[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match that is neither denied nor taken back, unless it is joined to the one before it."""
    standing = (match for match in reversed(found) if not candidates.refused(*candidates.around(text, match)))
    last, before = next(standing, None), next(standing, None)
    if last is None or candidates.offered(*candidates.around(text, last)):
        return None
    if before is not None and before[0] != last[0] and candidates.joined(text[before.end() : last.start()]):
        return None
    return last


_CHAIN = (
    ("boxed", _boxed),
    ("sentence", sentence),
    ("short", _short),
    ("formula", _formula),
    ("number", _last_number),
)
