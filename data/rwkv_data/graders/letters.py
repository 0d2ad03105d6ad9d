r"""letter-v1: the letter that a chain of thought, or any free completion, chooses.

Of a completion that thinks first only what follows the last `</think>` is read. The chain, by the name of the route:

1. `sentence`: behind the last "answer is", "answer:", "答案是", "选" ... a capital letter of the row's choices that
   stands alone: `C`, `(C)`, `**C**`, `\boxed{C}`, `\text{(C)}`, `$C$`, "option C", "C. Paris", "C) ...". The article in
   "the answer is a metal" or "is A metal" is no letter; neither is the pronoun in "the answer is I think B".
2. `boxed`: the last box, if it holds a letter alone or one that opens it (`\boxed{B. 5 cm}`).
3. `text`: the last sentence or box holds the whole text of one choice, and of that alone.
4. `alone`: the last capital letter that stands alone anywhere, articles and pronouns aside.

Otherwise there is no answer. Lower-case letters count only in brackets or alone behind "answer:".
"""

import re
import unicodedata

from rwkv_data.answer import Answer, Grade
from rwkv_data.grader import Grader
from rwkv_data.graders.boxed import last_box
from rwkv_data.graders.extract import Extracted, after_thinking
from rwkv_data.rows import letters
from rwkv_data.stage import Row

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
_ALONE = re.compile(r"(?<!\bnot )(?<!n't )(?<![\w'’.&-])([A-Z])(?!\w|['’]\w|&|-\w|\.[A-Za-z]\b|\.\s?[A-Z]\.)", re.ASCII)
_END = re.compile(r"\n|[.!?。！？](?=\s|$)")


def grade(row: Row, answer: Answer) -> Grade:
    """Right if the chosen letter is the row's. Nothing that can be read as a letter is no answer."""
    expected, names = str(row["answer"]), letters(row)
    found = chosen(answer.text, names, [str(choice) for choice in row["choices"]])
    if not found.text:
        return Grade(0.0, None, expected, "no_answer")
    right = found.text == expected
    return Grade(float(right), found.text, expected, "right" if right else "wrong", route=found.route)


def chosen(text: str, names: str, choices: list[str]) -> Extracted:
    """The letter that a completion chooses, and by which rule it was found; empty if none is."""
    tail = unicodedata.normalize("NFKC", after_thinking(text)[-_WINDOW:])[-_WINDOW:]
    said = _said(tail)
    for rest in said:
        if letter := _first(rest, names):
            return Extracted(letter, "sentence")
    box = last_box(tail)
    if box is not None and (letter := _first(box, names)):
        return Extracted(letter, "boxed")
    for part in [*said[:1], *([box] if box is not None else [])]:
        if letter := _by_text(part, names, choices):
            return Extracted(letter, "text")
    if letter := _last_alone(tail, names):
        return Extracted(letter, "alone")
    return Extracted()


def _said(text: str) -> list[str]:
    """What follows each announcement of an answer, the last one first."""
    ends = [match.end() for match in _ANCHOR.finditer(text)]
    return [text[end : end + _NEAR] for end in reversed(ends[-20:])]


def _first(text: str, names: str) -> str:
    """The letter that a text opens with, marks and brackets aside."""
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
        and not re.match(r"\s+(?:is|are|because|since|as|and|or|which)\b", behind)
    ):
        return False
    return not (letter == "I" and _PRONOUN.match(behind))


def _by_text(text: str, names: str, choices: list[str]) -> str:
    """The letter of the one choice whose whole text a sentence holds; of one within another, the longer."""
    sentence = _plain(_END.split(text.lstrip(), maxsplit=1)[0])
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
    """The last capital letter that stands alone; at the start of a sentence before a small word, A is an article."""
    for match in reversed(list(_ALONE.finditer(text))):
        behind = text[match.end() : match.end() + 20]
        if match[1] in names and _stands_alone(match[1], behind):
            return match[1]
    return ""


GRADER = Grader.of("letter-v1", "1", grade)
