r"""How Qwen2.5-Math's evaluation finds and normalises an answer (github.com/QwenLM/Qwen2.5-Math, evaluation/, MIT).

The rules are the original's, in its order, odd ones too: single letters are taken for units, and "and" is taken out
wherever it stands. Written anew; English number words are read by number_words.
"""

import re

from rwkv_data.graders.maths.number_words import as_digits

LONGEST = 2000
# What the original takes for units (from MathQA), in its order; `|` stands between them, `.` means any character.
_UNIT_NAMES = (
    "east|degree|mph|kmph|ft|m sqaure| m east|sq m|deg|mile|q .|monkey|prime|ratio|profit of rs|rd|o|gm|p . m|lb|tile"
    "|per|dm|lt|gain|ab|way|west|a .|b .|c .|d .|e .|f .|g .|h .|t|a|h|no change|men|soldier|pie|bc|excess|st|inches"
    "|noon|percent|by|gal|kmh|c|acre|rise|a . m|th|π r 2|sq|mark|l|toy|coin|sq . m|gallon|° f|profit|minw|yr|women"
    "|feet|am|pm|hr|cu cm|square|v â € ™|are|rupee|rounds|cubic|cc|mtr|s|ohm|number|kmph|day|hour|minute|min|second"
    "|man|woman|sec|cube|mt|sq inch|mp|∏ cm ³|hectare|more|sec|unit|cu . m|cm 2|rs .|rs|kg|g|month|km|m|cm|mm|apple"
    "|liter|loss|yard|pure|year|increase|decrease|d|less|Surface|litre|pi sq m|s .|metre|meter|inch"
)
_UNIT_LIST = _UNIT_NAMES.split("|")
_UNITS = tuple(re.compile(rf"(^|\W){unit}($|\W)") for unit in (*_UNIT_LIST, *(f"{unit}s" for unit in _UNIT_LIST)))
_FIRST = (
    ("\n", ""),
    ("\\!", ""),
)
_SECOND = (
    ("bmatrix", "pmatrix"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\neq", "\\ne"),
    ("\\leq", "\\le"),
    ("\\geq", "\\ge"),
    ("\\left", ""),
    ("\\right", ""),
    ("\\{", "{"),
    ("\\}", "}"),
)
_THIRD = (("^{\\circ}", ""), ("^\\circ", ""), ("\\$", ""), ("$", ""), ("\\(", ""), ("\\)", ""))
_NAMES = ("x=", "y=", "z=", "x\\in", "y\\in", "z\\in", "x\\to", "y\\to", "z\\to")
_FOURTH = (
    ("\\emptyset", "{}"),
    ("(-\\infty,\\infty)", "\\mathbb{R}"),
    ("\\%", ""),
    ("%", ""),
    (" .", " 0."),
    ("{.", "{0."),
    ("infinity", "\\infty"),
)
_ARRAY = re.compile(r"\\begin\{array\}\{.*?\}")
_TEXT_AT_END = re.compile(r"\\text{.*?}$")
_TEXT = re.compile(r"\\text\{(.*?)\}")
_MBOX = re.compile(r"\\mbox{.*?}")
_ZEROS = (re.compile(r"(\d+)\.0*([^\d])"), re.compile(r"(\d+)\.0*$"))
_ROOT = re.compile(r"\\sqrt(\w+)")
_NUMBER = re.compile(r"-?\d*\.?\d+")


def answer_of(completion: str) -> tuple[str, str]:
    """Return the answer of a completion in normal form, and the rule that found it: the original's extract_answer."""
    found, route = _raw(completion)
    found = re.sub(r"\n\s*", "", found[:LONGEST]).removeprefix(":").removesuffix(".").removesuffix("/")
    return normal(normal(found)), route


def _raw(text: str) -> tuple[str, str]:
    if "final answer is $" in text and "$. I hope" in text:
        return text.split("final answer is $", 1)[1].split("$. I hope", 1)[0].strip(), "minerva"
    if "boxed" in text:
        return _box(text.rpartition("boxed")[2]), "boxed"
    for anchor in ("he answer is", "final answer is"):
        if anchor in text:
            return text.rpartition(anchor)[2].strip(), "sentence"
    if "答案是" in text:
        return text.split("答案是")[1].strip().split("\n\n")[0].strip(), "sentence"
    numbers = _NUMBER.findall(text[-20_000:].replace(",", ""))
    return (numbers[-1], "number") if numbers else ("", "")


def _box(text: str) -> str:
    """Return what follows the last "boxed": the content of its braces (to the end if they stay open), or up to a
    dollar."""
    if not text.startswith("{"):
        return text.split("$", maxsplit=1)[0].strip()
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return text[1:index]
    return text[1:]


def normal(text: str) -> str:
    """Return the normal form of an answer, as the original's strip_string builds it."""
    text = _replaced(text[:LONGEST].strip(), _FIRST).rstrip(".")
    text = _replaced(_ARRAY.sub(r"\\begin{pmatrix}", text).replace("\\end{array}", "\\end{pmatrix}"), _SECOND)
    text = _TEXT_AT_END.sub("", text).strip() or text
    text = as_digits(_replaced(_without_units(text), _THIRD))
    text = _TEXT.sub(r"\1", text)
    for name in _NAMES:
        text = text.replace(name, "")
    text = _replaced(text, _FOURTH)
    if "\\infty" not in text:
        text = text.replace("inf", "\\infty")
    text = _MBOX.sub("", text.replace("and", "").replace("\\mathbf", ""))
    if "j" in text and "i" not in text:
        text = text.replace("j", "i")
    text = _ZEROS[1].sub(r"\1", _ZEROS[0].sub(r"\1\2", text))
    return _tied(text) if text else text


def _tied(text: str) -> str:
    """Apply the last steps to a text that is not empty: leading zeros, names before `=`, roots, blanks, fractions."""
    if text[0] == ".":
        text = "0" + text
    name, equals, value = text.partition("=")
    if equals and "=" not in value and len(name) <= 2:
        text = value
    return _slash(_fractions(_ROOT.sub(r"\\sqrt{\1}", text).replace(" ", "")))


def _without_units(text: str) -> str:
    for unit in _UNITS * 2:
        text = unit.sub(r"\1\2", text) or text
    return text


def _replaced(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _fractions(text: str) -> str:
    r"""Turn `\frac12` into `\frac{1}{2}` where numerator and denominator can be told; else return the text
    unchanged."""
    head, *rest = text.split("\\frac")
    built = head
    for part in rest:
        if part.startswith("{"):
            built += "\\frac" + part
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            built += f"\\frac{{{part[0]}}}{part[1:]}"
        else:
            built += f"\\frac{{{part[0]}}}{{{part[1]}}}{part[2:]}"
    return built


def _slash(text: str) -> str:
    parts = text.split("/")
    if len(parts) != 2:
        return text
    try:
        top, bottom = (part if "sqrt" in part else str(int(part)) for part in parts)
    except ValueError:
        return text
    return f"\\frac{{{top}}}{{{bottom}}}" if text == f"{top}/{bottom}" else text
