r"""What can be said of two answers by their text alone, before a process is asked.

Two texts that differ only in how they are set (`\dfrac`, `\left(`, blanks, dollars, a full stop) are equal. Answers in
words (`\text{east}`, "(C)", "a necessary condition") are compared as words, never as mathematics: to a LaTeX reader
`east` and `seat` are the same product of four letters. Plain whole numbers are compared as numbers.
"""

import re
import unicodedata
from fractions import Fraction

from rwkv_data.graders.number import final_number

LONGEST = 2000
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
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}(?:\.0{0,20})?|[+-]?[0-9]{1,3}(?:,[0-9]{3}){1,100}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|[+-]?\.[0-9]+")


def tidy(text: str) -> str:
    """The text without what never changes its meaning, and never longer than an answer can be."""
    text = unicodedata.normalize("NFC", text[:LONGEST]).translate(_SIGNS)
    text = _STYLES.sub("", _DOLLARS.sub("", text.replace(r"\$", "")))
    text = _TEXT_COMMAND.sub(r"\\text{", _IMAGINARY.sub(" i", text))
    return _SET_BUILDER.sub(r"\1", text.lstrip(" \t\r\n,;:").rstrip(_ENDS))


def same(gold: str, answer: str) -> bool | None:
    """True or False where the texts decide; None where mathematics must."""
    gold, answer = tidy(gold), tidy(answer)
    if _set(gold) == _set(answer) != "":
        return True
    if words(gold):
        return words(gold) == _in_words(answer)
    if _WHOLE.fullmatch(gold):
        return _same_whole(gold, answer)
    return None


def _same_whole(gold: str, answer: str) -> bool | None:
    """Whole numbers against numbers; and against a number among words, by the rules of number-v1."""
    if _WHOLE.fullmatch(answer):
        return _number(gold) == _number(answer)
    if _A_WORD.search(_COMMAND.sub(" ", answer)):
        found = final_number(answer)
        return True if found is not None and found.value == _number(gold) else None
    return None


def words(text: str) -> str:
    """An answer in words, in the form in which it is compared; empty if the text is mathematics."""
    inner = _TEXT_GROUP.sub(r"\1", text)
    if _NOT_WORDS.search(inner):
        return ""
    if _LETTER.fullmatch(inner.strip()) or _A_WORD.search(inner):
        return _in_words(text)
    return ""


def _in_words(text: str) -> str:
    """Letters, digits and signs of a text: no case, no blanks, no brackets or stops around words."""
    folded = unicodedata.normalize("NFKC", _TEXT_GROUP.sub(r"\1", text)).casefold()
    return " ".join(re.findall(r"\w+|[^\w\s().,;:'\"{}\\-]", folded))


def _set(text: str) -> str:
    """The text as it would be read, whatever its typesetting. Blanks between digits stay: `2 1/2` is not `21/2`."""
    text = _FRACTION.sub(r"\\frac", _SET_APART.sub(" ", text.replace("{,}", ",").replace("\\\\", "\\\\ ")))
    return _BLANKS.sub("", text.replace("^{\\circ}", "^\\circ").replace("\\%", "%"))


def setting_aside(text: str) -> str:
    """The tidy text as it would be read, whatever its typesetting."""
    return _set(tidy(text))


def is_number(text: str) -> bool:
    """Whether the whole text is one plain number."""
    return bool(_NUMBER.fullmatch(tidy(text)))


def _number(text: str) -> Fraction:
    return Fraction(text.replace(",", "").rstrip("."))
