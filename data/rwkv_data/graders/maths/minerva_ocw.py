r"""minerva-ocw-v1 and minerva-ocw-text-v1: quantities of undergraduate science, to one per cent.

References of this set are measured numbers to two or three digits, written `4.5e33` or `-3./2`, whose unit the question
names; or formulas. A number may differ by 1 % of the reference, and may have a unit behind it. The rule of the harness
that the set comes with is not followed: it asks for five equal digits, which the references do not have (and evaluates
the reference as Python). Formulas are graded as by math-verify-v1.
"""

import re

from rwkv_data.definition.stage import Row
from rwkv_data.graders.extract import of_box, of_text
from rwkv_data.graders.maths import answer_text
from rwkv_data.graders.maths.grader import asked, equality, in_process
from rwkv_data.graders.maths.maths_worker import MathsClient

TOLERANCE = 0.01
_VERSION = "3+math-verify-0.9"
_DIGITS = r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})?(?:\.[0-9]{0,40})?"
_NUMBER = re.compile(
    rf"\s*(?P<digits>{_DIGITS})"
    r"(?:[eE](?P<e>[+-]?[0-9]{1,3})|\s*(?:\\times|\\cdot|×|\*|x)\s*10\s*(?:\^|\*\*)\s*\{?\s*(?P<ten>[+-]?[0-9]{1,3})\s*\}?)?"
    rf"(?:\s*/\s*(?P<under>[0-9]{{1,40}}(?:\.[0-9]{{0,40}})?)(?![A-Za-z\\]))?(?P<unit>.*)",
    re.DOTALL,
)
_POWER_OF_TEN = re.compile(r"\s*(?P<sign>-?)\s*10\s*\^\s*\{?\s*(?P<ten>[+-]?[0-9]{1,3})\s*\}?(?P<unit>.*)", re.DOTALL)
_UNIT_GROUP = re.compile(r"\\(?:mathrm|text|mbox|rm|operatorname|mathbf)\s*\{[^{}]*\}")
_UNIT = re.compile(
    r"(?:[A-Za-zµμΩÅ°]++(?:\^\{?[+-]?[0-9]\}?)?|[\s~/·.^(){}]|\\(?:[,;: ]|cdot|circ|AA|mu|Omega)|\^\{?[+-]?[0-9]\}?)*+"
)
_LONGEST = 400
_LEFT_SIDE = re.compile(r"^[^=]{0,60}(?:=|\\approx|≈|\\simeq)")


def quantity(text: str, *, unit: bool = True) -> float | None:
    """Return the number of a text, after which a unit may follow; None for any other text."""
    text = _LEFT_SIDE.sub("", answer_text.tidy(text))[:_LONGEST]
    ten = _POWER_OF_TEN.fullmatch(text)
    match = ten or _NUMBER.fullmatch(text)
    if match is None or not (_UNIT.fullmatch(_UNIT_GROUP.sub(" ", match["unit"])) if unit else not match["unit"]):
        return None
    if ten:
        return float(f"{ten['sign']}1e{ten['ten']}")
    digits = match["digits"].replace(",", "")
    if not re.search(r"[0-9]", digits):
        return None
    return float(f"{digits}e{match['e'] or match['ten'] or 0}") / _divisor(match["under"])


def _divisor(digits: str | None) -> float:
    return (float(digits) if digits else 1.0) or float("nan")


def compare(process: MathsClient, row: Row, text: str) -> tuple[bool, str]:
    """Compare numbers within the tolerance, and formulas by mathematics."""
    gold = str(row["answer"]).replace("np.", "\\")
    expected, predicted = quantity(gold, unit=False), quantity(text)
    if expected is not None and predicted is not None:
        return abs(predicted - expected) <= TOLERANCE * abs(expected) * (1 + 1e-9), ""
    if expected is None or answer_text.same(gold, text):
        return equality(process, gold, text)
    if reason := answer_text.objection(gold, text):
        return False, reason
    answer = _UNIT_GROUP.sub(" ", answer_text.tidy(text))
    reply = asked(process, "matched", [_plain(expected)], [answer], tolerance=TOLERANCE, relative=True)
    return reply["equal"], "" if reply["read"] else "math-verify reads nothing in it"


def _plain(value: float) -> str:
    """Return a number as LaTeX."""
    digits, _, power = f"{value:.12e}".partition("e")
    return f"{digits} \\times 10^{{{int(power)}}}"


GRADER = in_process("minerva-ocw-v1", _VERSION, compare, of_box)
TEXT = in_process("minerva-ocw-text-v1", _VERSION, compare, of_text)
