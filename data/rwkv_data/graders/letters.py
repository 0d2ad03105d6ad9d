r"""letter-v1: the letter that a chain of thought, or any free completion, chooses.

Of a completion that thinks first only what follows the last `</think>` is read. The chain, by the name of the route:

1. `sentence`: behind the last "answer is", "answer:", "答案是", "选" ... a capital letter of the row's choices that
   stands alone: `C`, `(C)`, `**C**`, `\boxed{C}`, `\text{(C)}`, `$C$`, "option C", "C. Paris", "C) ...". The article in
   "the answer is a metal" or "is A metal" is no letter; neither is the pronoun in "the answer is I think B".
2. `boxed`: the last box, if it holds a letter alone or one that opens it (`\boxed{B. 5 cm}`).
3. `text`: the last sentence or box holds the whole text of one choice, and of that alone.
4. `opening`: the text opens with a choice and its mark, `(A) ...` or `A. ...`, and marks no other.
5. `alone`: the last capital letter that stands alone anywhere, articles, pronouns and quantities (`$B$`) aside.

An announcement or box that names several letters ("A or B", "both A and B") is the answer all the same, and no letter.
A letter that is denied or taken back ("not B", "B is wrong") is passed over, and a last one that is joined to another
("either A or B", "A through E") is none; see candidates.

Otherwise there is no answer. Lower-case letters count only in brackets or alone behind "answer:".
"""

import re
import unicodedata

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.rows import letters
from rwkv_data.definition.stage import Row
from rwkv_data.graders import candidates
from rwkv_data.graders.extract import ExtractedAnswer, after_thinking
from rwkv_data.graders.maths.boxed import last_box

_WINDOW = 20_000
_NEAR = 200
_ANCHOR = re.compile(
    r"\b(?:answer|choice|option)\s{0,3}(?:\([^()\n]{0,30}\)\s{0,2})?"
    r"(?:[*_]{0,2}\s{0,3}[:：]\s{0,3}|(?:choice|option)?\s{0,3}(?:is|are|would\s+be|should\s+be|must\s+be|will\s+be)\b\s{0,3}[:：]?)"
    r"|(?:答案|选项)\s{0,3}(?:应该|就|只能)?(?:是|为|选|[:：])\s{0,3}[:：]?"
    r"|(?:故|应|因此|所以|正确的?)\s{0,2}选(?:择|项)?(?:是|为|[:：])?"
    r"|####",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:[\s*_`$\"'“‘:：]|\\(?:text|textbf|mathbf|mathrm|boxed|fbox|bf)\s?\{|\\[(\[]|\{|[(（\[【]"
    r"|(?:option|choice|letter|answer|probably|therefore|clearly|definitely|the|选项|选)(?![a-zA-Z])){0,12}",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\s+[a-z]")
_PRONOUN = re.compile(
    r"\s+(?:think|believe|am|would|will|have|had|was|do|don|can|could|know|need|guess|choose|say)\b|['’]"
)
_ALONE = re.compile(r"(?<![\w'’.&-])([A-Z])(?!\w|['’]\w|&|-\w|\.[A-Za-z]\b|\.\s?[A-Z]\.)", re.ASCII)
_NAMED = r"[\s*_`$\"'“‘(（\[{]*(?:\\text\s?\{|\\textbf\s?\{)?\(?(?:(?:option|choice|letter|answer)s?\s+)?\(?"
_SEVERAL = re.compile(
    rf"[\s:：*_]*(?:either\s+|both\s+|between\s+|options?\s+|choices?\s+|letters?\s+)?{_NAMED}(?P<first>[A-Z])(?![A-Za-z0-9'’])[\s)\]}}*_`$\"'”’）]*(?:\\(?:text|mbox|textbf)\s?\{{\s*)?"
    rf"(?:,|/|\\,|{candidates.JOIN}|and/or)[,\s}}]*(?:or|and)?{_NAMED}(?P<second>[A-Z])(?![A-Za-z0-9]|['’]\w)",
)
_MARKED = re.compile(r"\(([A-Z])\)|([A-Z])(?:[.):]|\*\*)(?=\s|\*)(?!\s[A-Z]\.)")
_MARKED_ANYWHERE = re.compile(r"\(([A-Z])\)|(?:(?<=\n)|^)[^\S\n]*\**([A-Z])[.):](?=\s|\*)")
_POINTS_AT = re.compile(r"(?:\b(?:is|be|are|choose|pick|select|option|choice|answer)|[:：选])\s*\$$", re.IGNORECASE)
_END = re.compile(r"\n|[.!?。！？](?=\s|$)")


def grade(row: Row, answer: Answer) -> Grade:
    """Grade as right if the chosen letter is that of the row. A text in which no letter can be read has no answer."""
    expected, names = str(row["answer"]), letters(row)
    found = chosen(answer.text, names, [str(choice) for choice in row["choices"]])
    if not found.text:
        return Grade(0.0, None, expected, "no_answer")
    right = found.text == expected
    return Grade(float(right), found.text, expected, "right" if right else "wrong", route=found.route)


def chosen(text: str, names: str, choices: list[str]) -> ExtractedAnswer:
    """Return the letter that a completion chooses, and the rule that found it; empty if there is none."""
    tail = unicodedata.normalize("NFKC", after_thinking(text)[-_WINDOW:])[-_WINDOW:]
    announced = _announced(tail)
    for rest in announced:
        if _names_several(rest, names):
            return ExtractedAnswer()
        if letter := _first(rest, names):
            return ExtractedAnswer(letter, "sentence")
    box = last_box(tail)
    if box is not None and _names_several(box, names):
        return ExtractedAnswer()
    if box is not None and (letter := _first(box, names)):
        return ExtractedAnswer(letter, "boxed")
    for part in [*announced[:1], *([box] if box is not None else [])]:
        if letter := _by_text(part, names, choices):
            return ExtractedAnswer(letter, "text")
    if letter := _opening(tail, names):
        return ExtractedAnswer(letter, "opening")
    if letter := _last_alone(tail, names):
        return ExtractedAnswer(letter, "alone")
    return ExtractedAnswer()


def _names_several(text: str, names: str) -> bool:
    """Whether a text opens with two different letters or more that are joined: "A or B", "both (A) and (C)", "A, B"."""
    several = _SEVERAL.match(text)
    found = {letter for letter in (several["first"], several["second"]) if letter in names} if several else set()
    if several is None or len(found) < 2:
        return False
    behind = text[several.end() : several.end() + candidates.NEAR]
    return _stands_alone(several["second"], behind) and not candidates.withdrawn(behind)


def _opening(text: str, names: str) -> str:
    """Return the letter of the choice that a text opens with, if it marks no other one."""
    opened = _MARKED.match(text.lstrip().lstrip("*"))
    marked = {match[1] or match[2] for match in _MARKED_ANYWHERE.finditer(text)}
    letter = (opened[1] or opened[2]) if opened else ""
    if not letter or letter not in names or marked & set(names) != {letter} or candidates.withdrawn(text.lstrip()[3:]):
        return ""
    return letter


def _announced(text: str) -> list[str]:
    """Return what follows each announcement of an answer, the last one first."""
    ends = [match.end() for match in _ANCHOR.finditer(text)]
    return [text[end : end + _NEAR] for end in reversed(ends[-20:])]


def _first(text: str, names: str) -> str:
    """Return the letter that a text opens with, ignoring marks and brackets."""
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    letter, bracketed = text[start : start + 1], text[max(0, start - 1) : start] in {"(", "["}
    if letter.upper() not in names or not letter:
        return ""
    behind = text[start + 1 : start + 1 + 20]
    if letter.islower() and not (bracketed and behind[:1] in {")", "]"}) and behind.strip(" .*\n)}$"):
        return ""
    return letter.upper() if _stands_alone(letter, behind) else ""


def _stands_alone(letter: str, behind: str) -> bool:
    """Whether a letter is no part of a word, no article, no pronoun and no name of a quantity."""
    if re.match(r"\w|['’]\w|&|-\w|\.[A-Za-z]\b", behind):
        return False
    if (
        letter in "Aa"
        and _ARTICLE.match(behind)
        and not re.match(r"\s+(?:is|are|because|since|as|and|or|which|to|through)\b", behind)
    ):
        return False
    return not (letter == "I" and _PRONOUN.match(behind))


def _by_text(text: str, names: str, choices: list[str]) -> str:
    """Return the letter of the one choice whose whole text a sentence holds; if one text contains another, the
    longer."""
    announced = _END.split(text.lstrip(), maxsplit=1)[0]
    if candidates.denies(announced) and not any(candidates.denies(choice) for choice in choices):
        return ""
    sentence = _plain(announced)
    plain = {name: _plain(choice) for name, choice in zip(names, choices, strict=True)}
    held = {name: choice for name, choice in plain.items() if choice and f" {choice} " in f" {sentence} "}
    longest = [
        name
        for name, choice in held.items()
        if not any(choice != other and f" {choice} " in f" {other} " for other in held.values())
    ]
    return longest[0] if len(longest) == 1 else ""


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+|[-+]?\d[\d.,]*", text.casefold()))


def _last_alone(text: str, names: str) -> str:
    """Return the last capital letter that stands alone. A before a lower-case word at the start of a sentence is an
    article."""
    standing = (match for match in reversed(list(_ALONE.finditer(text))) if _chooses(text, match, names))
    last, before = next(standing, None), next(standing, None)
    if last is None or (
        before is not None and before[1] != last[1] and candidates.joined(text[before.end() : last.start()])
    ):
        return ""
    return last[1]


def _chooses(text: str, match: re.Match[str], names: str) -> bool:
    """Whether a letter stands for a choice that the text does not reject."""
    before, behind = candidates.around(text, match)
    if match[1] not in names or not _stands_alone(match[1], behind[:20]):
        return False
    if before.endswith("$") and behind.startswith("$") and not _POINTS_AT.search(before):
        return False
    return not candidates.refused(before, behind)


GRADER = Grader.of("letter-v1", "2", grade)
