r"""number-v1: the final number of an answer, compared as a number. number-text-v1: the same of a whole completion,
whose answer is found first (see extract). And exact-number-v1: the answer must be the number.

The rule of number-v1, in order:

1. The answer ends where the box closes: at the first `}` that closes nothing before it.
2. `$`, `\$`, `\!`, `\,`, `\;`, `\ `, `\left`, `\right` and the names `\text`, `\mathrm`, `\mbox` ... are taken out;
   `{,}` and `\%` become `,` and `%`; the signs `−` and `–` become `-`.
3. Only what stands behind the last `=`, `≈`, `\approx` or `\equiv` counts.
4. A number is: digits, with or without commas between groups of three, and an optional decimal part. `\frac{a}{b}` and
   `a/b` are one number, a fraction. A minus right before it belongs to it, unless it stands right behind a digit, a
   letter or a closing bracket, or has blanks on both sides: that is a subtraction.
5. The last number is the answer, unless an operator ties it to what stands around it (a power, product, root, sum,
   quotient, ratio, list, mixed number, inequality, a factor such as \pi): then the answer is an expression, of which
   its last number is only a part, and there is no final number. rwkv-skills compares such parts, so there `\sqrt{7}`
   passes for 7; here it does not.
6. Both sides are compared as exact fractions: 18.0 = 18 = 36/2. Units and words around the number do not matter.

No number, or an expression, is `no_answer`: it counts as wrong, and is counted apart.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from rwkv_data.answer import Answer, Grade
from rwkv_data.grader import Grader
from rwkv_data.graders.boxed import inside_box
from rwkv_data.graders.extract import of_text
from rwkv_data.stage import Row

_LONGEST = 400
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"\\[dt]?frac\s*\{{\s*(?P<top>-?(?:{_DIGITS}))\s*\}}\s*\{{\s*(?P<bottom>-?(?:{_DIGITS}))\s*\}}"
    rf"|(?P<over>{_DIGITS})\s*/\s*(?P<under>{_DIGITS})"
    rf"|(?P<whole>{_DIGITS})",
    re.ASCII,
)
_MINUS_SIGNS = str.maketrans("−–", "--")
_TAKEN_OUT = re.compile(
    r"\\?\$|\\[!,; ]|\\left(?![a-z])|\\right(?![a-z])|\\(?:text|mathrm|mbox|textbf|mathbf)\s*(?=\{)"
)
_EQUALS = re.compile(r"=|≈|\\approx|\\equiv")
_MINUS = re.compile(r"(?:^|[^\w)\]}.])-$|^\s*-\s*$")
_TIED_BEFORE = re.compile(
    r"(?:[\^_*×·÷/±<>≤≥-]|\\times|\\cdot|\\div|\\pm|\\sqrt(?:\[\d+\])?|\\[dt]?frac|\\(?:le|ge|lt|gt|leq|geq|ne|neq)|[\w)}]\s*\+|\d\s*[:,]|\de)[\s{(]*$"
    r"|\}\{$|[\w)]\($"
)
_TIED_BEHIND = re.compile(
    r"\s*(?:\^(?!\{?\\circ)|[*×·÷]|\\times|\\cdot|\\div|\\pi|\\sqrt|\\[dt]?frac|/\s*\w|\+\s*[\w\\(]|\s-\s*[\w\\(])"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A number, and the text that it was read from."""

    value: Fraction
    text: str


def final_number(text: str) -> Found | None:
    """The number that a text comes down to, by rules 2 to 5."""
    tidy = _TAKEN_OUT.sub("", text.replace("{,}", ",").replace("\\%", "%").translate(_MINUS_SIGNS))
    side = _EQUALS.split(tidy)[-1]
    numbers = list(_NUMBER.finditer(side))
    if not numbers or len(numbers[-1][0]) > _LONGEST:
        return None
    last = numbers[-1]
    before, behind = side[: last.start()], side[last.end() :]
    negative = bool(_MINUS.search(before))
    if (not negative and _TIED_BEFORE.search(before)) or _TIED_BEHIND.match(behind) or _is_mixed(before, last):
        return None
    return _found(last, negative=negative)


def _is_mixed(before: str, last: re.Match[str]) -> bool:
    return last["whole"] is None and re.search(r"\d\s*$", before) is not None


def _found(match: re.Match[str], *, negative: bool) -> Found | None:
    top = _fraction(match["whole"] or match["over"] or match["top"])
    bottom = _fraction(match["under"] or match["bottom"] or "1")
    if bottom == 0:
        return None
    sign = -1 if negative else 1
    return Found(sign * top / bottom, "-" * negative + match[0])


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", ""))


def grade(row: Row, answer: Answer) -> Grade:
    """number-v1 on the content of the final box."""
    return _graded(row, inside_box(answer.text), "boxed")


def grade_text(row: Row, answer: Answer) -> Grade:
    """number-text-v1 on a whole completion."""
    found = of_text(answer.text)
    return _graded(row, found.text, found.route)


def _graded(row: Row, text: str, route: str) -> Grade:
    expected = str(row["answer"])
    gold = final_number(expected)
    if gold is None:
        return Grade(None, None, expected, "error", f"the reference {expected!r} is no number")
    return _verdict(final_number(text), gold, expected, route)


def grade_exact(row: Row, answer: Answer) -> Grade:
    """exact-number-v1: nothing but the number, blanks aside."""
    text, expected = answer.text.strip(), str(row["answer"])
    found = Found(Fraction(text), text) if re.fullmatch(r"-?[0-9]{1,32}", text) else None
    return _verdict(found, Found(Fraction(expected), expected), expected, "")


def _verdict(found: Found | None, gold: Found, expected: str, route: str) -> Grade:
    if found is None:
        return Grade(0.0, None, expected, "no_answer")
    if found.value == gold.value:
        return Grade(1.0, found.text, expected, "right", route=route)
    return Grade(0.0, found.text, expected, "wrong", route=route)


NUMBER = Grader.of("number-v1", "1", grade)
TEXT = Grader.of("number-text-v1", "1", grade_text)
EXACT = Grader.of("exact-number-v1", "1", grade_exact)
