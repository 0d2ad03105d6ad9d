r"""Compare two answers by their text alone, before a worker process is asked.

Two texts that differ only in how they are set (`\dfrac`, `\left(`, blanks, dollars, a full stop) are equal. Answers in
words (`\text{east}`, "(C)", "a necessary condition") are compared as words, never as mathematics: to a LaTeX reader
`east` and `seat` are the same product of four letters. Plain numbers are compared as numbers, also a number among words
by the rules of number-v1. A percentage is its number or a hundredth of it (`50\%` is 50 and 0.5, not `0.5\%`), a
numeral with a base is that numeral in that base (`12_3` is not `12_4`), quantities in different units are converted.
What the text gives away as no single answer, or as another unit, variable or kind of bracket, is an objection.
"""

import re
import unicodedata
from fractions import Fraction
from typing import Literal

from rwkv_data.graders import candidates
from rwkv_data.graders.maths import physical_units
from rwkv_data.graders.maths.number import final_number, rounds_to
from rwkv_data.graders.maths.number_words import spelled

LONGEST = 2000
TextVerdict = Literal["equal", "rounded", "different"]
_SIGNS = str.maketrans("−–，；：（）％", "--,;:()%")
_DOLLARS = re.compile(r"(?<!\\)\$|\\[()\[\]]")
_STYLES = re.compile(r"\\(?:displaystyle|textstyle|limits|nolimits|boldsymbol|bf|rm|it)(?![a-zA-Z])")
_TEXT_COMMAND = re.compile(r"\\(?:text|mbox|textrm|textnormal)\s*\{")
_IMAGINARY = re.compile(
    r"(?<=[0-9])i(?![a-zA-Z])"
)  # math-verify takes an i for the imaginary one only if it stands alone
_SET_BUILDER = re.compile(r"\\\{\s*[a-z]\s*(?:\\mid|\\vert|\||:)([^{}=,|]*(?:<|>|\\[lg]eq?(?![a-z]))[^{}=,|]*)\\\}")
_ENDS = " \t\r\n.,;。"
_SET_APART = re.compile(
    r"\\[!,:;> ]|\\(?:left|right|[bB]igg?[lr]?|quad|qquad|text|mathrm|textbf|mathbf|mbox)(?![a-zA-Z])|~"
)
_FRACTION = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_BLANKS = re.compile(r"(?<![0-9])\s+|\s+(?![0-9])")
_TEXT_GROUP = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s?\{([^{}]*)\}")
_NOT_WORDS = re.compile(r"[0-9\\=<>^_+*/|&$]")
_COMMAND = re.compile(r"\\(?!text|mbox|mathrm)[a-zA-Z]+")
_A_WORD = re.compile(r"[^\W\d_]{3,}")
_LETTER = re.compile(r"\(?\s*([A-Z])\s*\)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|[+-]?\.[0-9]+")

_SEVERAL = re.compile(rf"(?<!\\)[,;]|\\pm|\\mp|\\cup|[<>]|\\[lg]eq?(?![a-z])|{candidates.JOIN}", re.IGNORECASE)
_PLUS_MINUS = re.compile(r"\\pm(?![a-zA-Z])|\\mp(?![a-zA-Z])|±")
_PARTS = re.compile(r",|;|(?<![a-zA-Z])(?:or|and)(?![a-zA-Z])|或|和")
_NUMBERS = re.compile(r"[-+0-9.,\s]+")
_PERCENT = re.compile(r"%|percent")
_PERCENTAGE = re.compile(
    r"(-?(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+|\\frac\{?[0-9]+\}?\{?[0-9]+\}?|[0-9]+/[0-9]+))(%|percent)?"
)
_BASED = re.compile(
    r"(?P<digits>-?(?=[A-F]*[0-9])[0-9A-F][0-9A-F,.]*)(?:_(?P<base>[0-9]{1,2}|[{(]{1,3}(?:[0-9]{1,2}|[a-z]{3,8})[)}]{1,3}))?"
)
_UNIT_POWER = re.compile(
    r"[0-9}]\s*\\(?:text|mbox|mathrm)\s*\{\s*[a-zA-Z][a-zA-Z. ]{1,40}\}\s*\^\s*\{?\s*([0-9])\s*\}?$"
)
_SPELLED_UNIT = re.compile(r"\\(?:text|mbox|mathrm|textrm|rm|operatorname)(?![a-zA-Z])|°|circ|degree")
_LETTERS = re.compile(r"[a-zA-Z]+")
_HALF_OF_DAY = re.compile(r"(?<![a-zA-Z\\])([ap])\.?\s?m(?![a-zA-Z])", re.IGNORECASE)
_CLOSED_INFINITY = re.compile(r"\\infty\s*(?:\\right)?\s*\]|\[\s*-\s*\\infty")
_VARIABLE = re.compile(r"[0-9]([a-z])$")
_PLAIN = re.compile(r"-?(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+|\\frac\{?-?[0-9]+\}?\{?[0-9]+\}?|[0-9]+/[0-9]+)")
_LISTED = re.compile(r"(\(|\[|\\\{)[^()\[\]]*,[^()\[\]]*(?:\)|\]|\\\})")
_THIN_SPACE = re.compile(r"(?<=[0-9]),?\s?\\[!,:; ]\s?(?=[0-9]{3}(?![0-9]))")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))|\([^()]*\)|\[[^\[\]]*\]")


def tidy(text: str) -> str:
    """Return the text without typesetting that never changes its meaning, cut to the length of an answer."""
    text = unicodedata.normalize("NFC", text[:LONGEST]).translate(_SIGNS)
    text = _STYLES.sub("", _DOLLARS.sub("", text.replace(r"\$", "")))
    text = _TEXT_COMMAND.sub(r"\\text{", _IMAGINARY.sub(" i", text))
    return _SET_BUILDER.sub(r"\1", text.lstrip(" \t\r\n,;:").rstrip(_ENDS))


def same(gold: str, answer: str) -> bool | None:
    """Return True or False where the texts decide; None where mathematics must."""
    known = verdict(gold, answer)
    return None if known is None else known != "different"


def verdict(gold: str, answer: str) -> TextVerdict | None:
    """Return what the texts decide; None where mathematics must. `rounded`: the answer rounds to the reference."""
    gold, answer = tidy(gold), tidy(answer)
    if _set(gold) == _set(answer) != "":
        return "equal"
    if words(gold):
        return "equal" if words(gold) == _in_words(answer) else "different"
    if _objection(gold, answer):
        return "different"
    rules = (_percent, _in_base, _quantity, _list, _plain_number)
    return next((known for rule in rules if (known := rule(gold, answer)) is not None), None)


def places(text: str) -> int | None:
    """Return the decimal places of a plain number that may have been rounded; None for any other text."""
    text = tidy(text)
    decimals = text.partition(".")[2]
    return len(decimals) if is_number(text) and decimals.strip("0") else None


def objection(gold: str, answer: str) -> str:
    """Return why an answer cannot be right, whatever its mathematics; empty if there is no objection."""
    gold, answer = tidy(gold), tidy(answer)
    return "" if _set(gold) == _set(answer) or words(gold) else _objection(gold, answer)


def _objection(gold: str, answer: str) -> str:
    rules = (_uncommitted, _other_unit, _other_brackets, _other_variable)
    return next((reason for rule in rules if (reason := rule(gold, answer))), "")


def _uncommitted(gold: str, answer: str) -> str:
    """Return an objection to several candidates, denials or exclusions that the reference does not have."""
    reason = candidates.objection(gold, answer)
    several = _SEVERAL.search(_THOUSANDS.sub("", gold)) is not None
    if "several" in reason and several:
        more = len(_PARTS.split(answer)) > len(_PARTS.split(gold))
        return "it names more candidates" if more and _NUMBERS.fullmatch(gold) else ""
    if not several and _PLUS_MINUS.search(answer):
        return reason or "it names several candidates"
    return reason


def _other_unit(gold: str, answer: str) -> str:
    wanted, given = _unit(gold), _unit(answer)
    if wanted is not None and (given is not None or _PERCENT.search(answer)):
        same = given is not None and wanted.converts_to(given)
        return "" if same or _PERCENT.search(gold) else "it has another unit"
    powers = {power[1] for text in (gold, answer) if (power := _UNIT_POWER.search(text))}
    if len(powers) > 1:
        return "it has another unit"
    halves = [half[1].casefold() for text in (gold, answer) if (half := _HALF_OF_DAY.search(text))]
    return "it is the other half of the day" if len(set(halves)) > 1 else ""


def _unit(text: str) -> physical_units.Unit | None:
    """Return the unit of a text. A bare one that also occurs among the factors is a variable: `2m^2 \\cdot 3m^2`."""
    value, unit = physical_units.split(text)
    behind = text[len(value) :]
    bare = [] if _SPELLED_UNIT.search(behind) else _LETTERS.findall(_COMMAND.sub(" ", behind))
    return None if set(bare) & set(_LETTERS.findall(_COMMAND.sub(" ", value))) else unit


def _other_brackets(gold: str, answer: str) -> str:
    kinds = {_brackets(gold), _brackets(answer)} - {""}
    closed = _CLOSED_INFINITY.search(answer) and not _CLOSED_INFINITY.search(gold)
    return "it has other brackets" if closed or len(kinds) > 1 else ""


def _brackets(text: str) -> str:
    """Return the kind of brackets around a whole list: a set, a point or interval; empty if there are none."""
    match = _LISTED.fullmatch(_set(text))
    if match is None:
        return ""
    return "set" if match[1] == "\\{" else "interval" if match[0].count(",") == 1 else "list"


def _other_variable(gold: str, answer: str) -> str:
    """Return an objection to a missing variable: math-verify drops some letters after a number as units, as in
    `I=3t`."""
    last = _VARIABLE.search(gold)
    lacks = last and physical_units.split(gold)[1] is None and last[1] not in _COMMAND.sub(" ", answer)
    return "it lacks a variable" if lacks else ""


def _compared(reference: str, value: Fraction) -> TextVerdict:
    """Compare a value with a plain number, which may have been rounded."""
    if value == _fraction(reference):
        return "equal"
    return "rounded" if rounds_to(reference, value) else "different"


def _percent(gold: str, answer: str) -> TextVerdict | None:
    """Compare percentages. A reference `g%` accepts `g%`, `g` and `g/100`. A reference `g` accepts `100g%`; from 1
    upwards it may be meant as a percentage and accepts `g%` too."""
    wanted, given = _PERCENTAGE.fullmatch(_set(gold)), _PERCENTAGE.fullmatch(_set(answer))
    if wanted is None or given is None or not (wanted[2] or given[2]):
        return None
    reference, value = _fraction(wanted[1]), _fraction(given[1])
    if reference is None or value is None:
        return None
    if wanted[2]:
        meant = [value] if given[2] else [value, value * 100]
    else:
        meant = [value / 100, value] if abs(reference) >= 1 else [value / 100]
    found = [_compared(wanted[1], one) for one in meant]
    return "equal" if "equal" in found else "rounded" if "rounded" in found else "different"


def _in_base(gold: str, answer: str) -> TextVerdict | None:
    """Compare numerals that have a base as they are written. One side may leave the base out."""
    wanted, given = _BASED.fullmatch(_set(gold)), _BASED.fullmatch(_set(answer))
    if wanted is None or given is None or not (wanted["base"] or given["base"]):
        return None
    named = [match["base"].strip("{}()") for match in (wanted, given) if match["base"]]
    bases = {spelled(name) if name.isalpha() else int(name) for name in named}
    equal = wanted["digits"].replace(",", "") == given["digits"].replace(",", "") and len(bases) == 1
    return "equal" if equal else "different"


def _quantity(gold: str, answer: str) -> TextVerdict | None:
    """Compare quantities with known units. Plain numbers are converted between units, expressions are not."""
    (value, wanted), (given_value, given) = physical_units.split(gold), physical_units.split(answer)
    if wanted is None or given is None:
        return None
    first, second = _a_number(value), _a_number(given_value)
    if wanted.size == given.size:
        return None if first is None or second is None else _compared(value, second)
    equal = first is not None and second is not None and first * wanted.size == second * given.size
    return "equal" if equal else "different"


def _list(gold: str, answer: str) -> TextVerdict | None:
    """Compare lists of whole numbers in any order. Each must occur as often as in the reference; sets would make
    `6,6,7` equal to `6,7,7`."""
    wanted, given = (list(map(str.strip, text.split(","))) for text in (gold, answer))
    if min(len(wanted), len(given)) < 2 or not all(_WHOLE.fullmatch(part) for part in (*wanted, *given)):
        return None
    return "equal" if sorted(map(int, wanted)) == sorted(map(int, given)) else "different"


def _plain_number(gold: str, answer: str) -> TextVerdict | None:
    """A plain number against numbers; and against a number among words, by the rules of number-v1."""
    if not _NUMBER.fullmatch(gold):
        return None
    if _NUMBER.fullmatch(answer):
        return _compared(gold, _number(answer))
    found = final_number(answer) if _A_WORD.search(_COMMAND.sub(" ", answer)) else None
    value = _a_number(answer) if found is None else found.value
    known = None if value is None else _compared(gold, value)
    return None if known == "different" else known


def _a_number(text: str) -> Fraction | None:
    """Return the value of a text that is one number or fraction and nothing else; None for any other."""
    found = final_number(text) if _PLAIN.fullmatch(_set(text)) else None
    return None if found is None else found.value


def words(text: str) -> str:
    """Return an answer in words, in the form in which it is compared; empty if the text is mathematics."""
    inner = _TEXT_GROUP.sub(r"\1", text)
    if _NOT_WORDS.search(inner):
        return ""
    if _LETTER.fullmatch(inner.strip()) or _A_WORD.search(inner):
        return _in_words(text)
    return ""


def _in_words(text: str) -> str:
    """Return a text without case, blanks, brackets, and full stops around words."""
    folded = unicodedata.normalize("NFKC", _TEXT_GROUP.sub(r"\1", text)).casefold()
    return " ".join(re.findall(r"\w+|[^\w\s().,;:'\"{}\\-]", folded))


def _set(text: str) -> str:
    """Return the text without typesetting. Blanks between digits stay: `2 1/2` is not `21/2`."""
    text = _THIN_SPACE.sub("", text)
    text = _FRACTION.sub(r"\\frac", _SET_APART.sub(" ", text.replace("{,}", ",").replace("\\\\", "\\\\ ")))
    return _BLANKS.sub("", text.replace("^{\\circ}", "^\\circ").replace("\\%", "%"))


def setting_aside(text: str) -> str:
    """Return the tidy text without typesetting."""
    return _set(tidy(text))


def is_number(text: str) -> bool:
    """Whether the whole text is one plain number."""
    return bool(_NUMBER.fullmatch(tidy(text)))


def _fraction(text: str) -> Fraction | None:
    if _NUMBER.fullmatch(text):
        return _number(text)
    found = final_number(text)
    return None if found is None else found.value


def _number(text: str) -> Fraction:
    return Fraction(text.replace(",", "").rstrip("."))
