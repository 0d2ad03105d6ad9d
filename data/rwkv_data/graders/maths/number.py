r"""number-v1: the final number of an answer, compared as a number. number-text-v1: the same of a whole completion,
whose answer is found first (see extract). And exact-number-v1: the answer must be the number.

The rule of number-v1, in order:

1. The answer ends where the box closes: at the first `}` that closes nothing before it.
2. `$`, `\$`, `\!`, `\,`, `\;`, `\ `, `\left`, `\right` and the names `\text`, `\mathrm`, `\mbox` ... are taken out;
   `{,}` and `\%` become `,` and `%`; the signs `−` and `–` become `-`.
3. Only what stands behind the last `=`, `≈`, `\approx` or `\equiv` counts.
4. A number is: digits, with or without commas between groups of three, and an optional decimal part. `\frac{a}{b}`,
   `\frac{a}b` and `a/b` are one number, a fraction. A minus right before it belongs to it, unless it stands right
   behind a digit, a letter or a closing bracket, or has blanks on both sides: that is a subtraction.
5. A number that is denied ("not 12") or taken back ("12 is wrong") does not count.
6. The last number is the answer, unless an operator ties it to what stands around it (a power, product, root, sum,
   quotient, ratio, list, mixed number, inequality, a factor such as \pi): then the answer is an expression, of which
   its last number is only a part, and there is no final number. rwkv-skills compares such parts, so there `\sqrt{7}`
   passes for 7; here it does not.
7. A last number that a word joins to another value ("2 or 3", "from 2 to 3") is one candidate of several, and one that
   a word bounds ("more than 3", "3 or less") is no value: there is no final number. Nor is there one in a text that
   says what the answer leaves out ("all but 3"); see candidates.
8. A text without digits is read as the number that its words spell ("twenty-seven apples"), if they spell one.
9. Both sides are compared as exact fractions: 18.0 = 18 = 36/2. Units and words around the number do not matter. A
   reference with decimals accepts what rounds to it: 2/3 is right for 0.6667. The route of such a grade ends in
   `, rounded`, and the counts of routes stand beside the score.

No number, or an expression, is `no_answer`: it counts as wrong, and is counted apart.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders import candidates
from rwkv_data.graders.extract import of_text
from rwkv_data.graders.maths.boxed import inside_box
from rwkv_data.graders.maths.number_words import spelled

_LONGEST = 400
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"\\[dt]?frac\s*\{{\s*(?P<top>-?(?:{_DIGITS}))\s*\}}\s*\{{\s*(?P<bottom>-?(?:{_DIGITS}))\s*\}}"
    rf"|(?P<over>{_DIGITS})\s*/\s*(?P<under>{_DIGITS})"
    rf"|(?P<whole>{_DIGITS})",
    re.ASCII,
)
_MINUS_SIGNS = str.maketrans({"−": "-", "–": "-", "\u2009": "", "\u202f": "", "\u00a0": " "})
_TAKEN_OUT = re.compile(
    r"\\?\$|\\[!,; ]|\\left(?![a-z])|\\right(?![a-z])|\\(?:text|mathrm|mbox|textbf|mathbf)\s*(?=\{)"
)
_SHORT_FRACTION = re.compile(r"(\\[dt]?frac)\s*(\{[^{}]{1,40}\}|[0-9])\s*(\{[^{}]{1,40}\}|[0-9](?![0-9.,]?[0-9]))")
_DECIMALS = re.compile(r"-?[0-9,]{0,40}\.([0-9]{1,40})", re.ASCII)
_EQUALS = re.compile(r"=|≈|\\approx|\\equiv")
_MINUS = re.compile(r"(?:^|[^\w)\]}.])-$|^\s*-\s*$")
_TIED_BEFORE = re.compile(
    r"(?:[\^_*×·÷/±<>≤≥-]|\\times|\\cdot|\\div|\\pm|\\sqrt(?:\[\d+\])?|\\[dt]?frac|\\(?:le|ge|lt|gt|leq|geq|ne|neq)|[\w)}]\s*\+|\d\s*[:,]|\de)[\s{(]*$"
    r"|\}\{$|[\w)]\($"
)
_TIED_BEHIND = re.compile(
    r"\s*(?:\^(?!\{?\\circ)|[*×·÷]|\\times|\\cdot|\\div|\\pi|\\sqrt|\\[dt]?frac|/\s*\w|\+\s*[\w\\(]|\s-\s*[\w\\(])"
)
_BOUND_BEFORE = re.compile(
    r"(?<![a-zA-Z])(?:(?:more|less|greater|fewer|larger|smaller|higher|lower|bigger)\s+than|at\s+(?:least|most)|up\s+to|between|below|above)"
    r"[\s({$\\]*-?$",
    re.IGNORECASE,
)
_BOUND_BEHIND = re.compile(
    candidates.UNITS + r"\s*(?<![a-zA-Z])(?:or|and)\s+"
    r"(?:more|less|fewer|greater|higher|lower|above|below|larger|smaller|up)(?![a-zA-Z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FoundNumber:
    """A number, and the text from which it was read."""

    value: Fraction
    text: str


def final_number(text: str) -> FoundNumber | None:
    """Return the final number of a text by rules 2 to 8; None if there is none."""
    tidy = _TAKEN_OUT.sub("", text.replace("{,}", ",").replace("\\%", "%").translate(_MINUS_SIGNS))
    tidy = _SHORT_FRACTION.sub(lambda of: f"{of[1]}{{{of[2].strip('{}')}}}{{{of[3].strip('{}')}}}", tidy)
    if candidates.excludes(tidy):
        return None
    standing = (match for match in reversed(list(_NUMBER.finditer(tidy))) if not _refused(tidy, match))
    numbers = list(islice(standing, 2))[::-1]
    if not numbers:
        words = spelled(tidy)
        return None if words is None else FoundNumber(Fraction(words), text.strip()[:_LONGEST])
    last = numbers[-1]
    found = _standing(tidy, last)
    if found is None or _is_one_of_several(tidy, numbers, found):
        return None
    return found


def _refused(tidy: str, match: re.Match[str]) -> bool:
    return candidates.refused(*candidates.around(tidy, match))


def _is_one_of_several(tidy: str, numbers: list[re.Match[str]], found: FoundNumber) -> bool:
    """Whether a word joins the last number to another value, or to anything that is no number ("Ted or 540")."""
    last = numbers[-1]
    for other in numbers[-2:-1]:
        first = _found(other, negative=bool(_MINUS.search(tidy[: other.start()])))
        if candidates.joined(tidy[other.end() : last.start()]):
            return first is None or first.value != found.value
    return candidates.offered(*candidates.around(tidy, last))


def _standing(tidy: str, last: re.Match[str]) -> FoundNumber | None:
    """Return the number of a match, unless the text around it makes it a part of something else."""
    before, behind = _EQUALS.split(tidy[: last.start()])[-1], tidy[last.end() :]
    if _EQUALS.search(behind):
        return None
    negative = bool(_MINUS.search(before))
    if (not negative and _TIED_BEFORE.search(before)) or _TIED_BEHIND.match(behind) or _is_mixed(before, last):
        return None
    if _BOUND_BEFORE.search(before) or _BOUND_BEHIND.match(behind):
        return None
    return _found(last, negative=negative)


def _is_mixed(before: str, last: re.Match[str]) -> bool:
    return last["whole"] is None and re.search(r"\d\s*$", before) is not None


def _found(match: re.Match[str], *, negative: bool) -> FoundNumber | None:
    if len(match[0]) > _LONGEST:  # Python itself reads no whole number of thousands of digits
        return None
    top = _fraction(match["whole"] or match["over"] or match["top"])
    bottom = _fraction(match["under"] or match["bottom"] or "1")
    if bottom == 0:
        return None
    sign = -1 if negative else 1
    return FoundNumber(sign * top / bottom, "-" * negative + match[0])


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", ""))


def rounds_to(reference: str, value: Fraction) -> bool:
    """Whether a value, rounded to the decimal places of a reference, equals the reference. Halves may go either way."""
    decimals = _DECIMALS.fullmatch(reference)
    if decimals is None or not decimals[1].strip("0"):
        return False
    return abs(value - _fraction(reference)) <= Fraction(1, 2 * 10 ** len(decimals[1]))


def grade(row: Row, answer: Answer) -> Grade:
    """Grade the content of the final box by number-v1."""
    return _graded(row, inside_box(answer.text), "boxed")


def grade_text(row: Row, answer: Answer) -> Grade:
    """Grade a whole completion by number-text-v1: find its answer, then compare it as number-v1 does."""
    found = of_text(answer.text)
    return _graded(row, found.text, found.route)


def _graded(row: Row, text: str, route: str) -> Grade:
    expected = str(row["answer"])
    gold = final_number(expected)
    if gold is None:
        return Grade(None, None, expected, "error", f"the reference {expected!r} is no number")
    return _verdict(final_number(text), gold, expected, route)


def grade_exact(row: Row, answer: Answer) -> Grade:
    """Grade by exact-number-v1: the answer must be the number and nothing else, blanks aside."""
    text, expected = answer.text.strip(), str(row["answer"])
    found = FoundNumber(Fraction(text), text) if re.fullmatch(r"-?[0-9]{1,32}", text) else None
    return _verdict(found, FoundNumber(Fraction(expected), expected), expected, "")


def _verdict(found: FoundNumber | None, gold: FoundNumber, expected: str, route: str) -> Grade:
    if found is None:
        return Grade(0.0, None, expected, "no_answer")
    if found.value == gold.value:
        return Grade(1.0, found.text, expected, "right", route=route)
    if rounds_to(expected, found.value):
        return Grade(1.0, found.text, expected, "right", route=f"{route}, rounded".lstrip(", "))
    return Grade(0.0, found.text, expected, "wrong", route=route)


NUMBER = Grader.of("number-v1", "3", grade)
TEXT = Grader.of("number-text-v1", "3", grade_text)
EXACT = Grader.of("exact-number-v1", "1", grade_exact)
