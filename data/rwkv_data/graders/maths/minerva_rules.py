r"""How Minerva's answers are read and normalised (Lewkowycz et al. 2022, arXiv 2206.14858, appendix D; lm_eval 0.4.13).

The answer stands in the sentence "Final Answer: The final answer is X. I hope it is correct."; else there is none.
"""

import re

INVALID = "[invalidanswer]"
LONGEST = 4000
_CLOSING = "I hope it is correct."
_HOPE = " I hope it is correct"
_SENTENCE = re.compile(r"Final Answer: The final answer is(.*?). I hope it is correct.")
_REPLACED = (
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    ("\\$", ""),
    (r"\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (",\\text{and}", ","),
    ("\\text{and}", ","),
    ("\\text{m}", "\\text{}"),
)
# In the original's order, on which the result depends.
_UNIT_WORDS = (
    "square ways integers dollars mph inches ft hours km units \\ldots sue points feet minutes digits cents degrees cm"
    " gm pounds meters meals edges students childrentickets multiples"
)
_UNITS = (
    *_UNIT_WORDS.split(),
    "\\text{s}",
    "\\text{.}",
    "\\text{\ns}",
    "\\text{}^2",
    "\\text{}^3",
    "\\text{\n}",
    "\\text{}",
    r"\mathrm{th}",
    r"^\circ",
    r"^{\circ}",
    r"\;",
    r",\!",
    "{,}",
    '"',
    "\\dots",
)
_WORDS = tuple((unit, re.compile(rf"(?<!\\)\b{unit}\b")) for unit in _UNITS if unit.isalpha())
_COMMAND = re.compile(r"(\\[a-zA-Z]+)")
_WRAPPERS = (
    (re.compile(r"(.*?)(\$)(.*?)(\$)(.*)"), r"$\3$"),
    (re.compile(r"(\\text\{)(.*?)(\})"), r"\2"),
    (re.compile(r"(\\textbf\{)(.*?)(\})"), r"\2"),
    (re.compile(r"(\\overline\{)(.*?)(\})"), r"\2"),
    (re.compile(r"(\\boxed\{)(.*)(\})"), r"\2"),
    (re.compile(r"(frac)([^{])(.)"), r"frac{\2}{\3}"),
    (re.compile(r"(sqrt)(\[[^\]]*\])(\w)"), r"\1\2{\3}"),
    (re.compile(r"(sqrt)(?!\[)([^{])"), r"sqrt{\2}"),
)
_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+")


def extracted_answer(completion: str) -> str:
    """Return the answer of a completion, not normalised; INVALID if there is none."""
    for line in (completion + _CLOSING).split("\n"):
        end = line.rfind(_HOPE)
        if end >= 0 and (match := _SENTENCE.search(line, 0, end + len(_HOPE) + 1)):
            return match[1].strip()
    return INVALID


def normal(answer: str) -> str:
    """Return the normal form of an answer; empty for one of more than LONGEST characters."""
    if len(answer) > LONGEST:
        return ""
    answer = answer.rsplit("=", maxsplit=1)[-1]
    for _, word in _WORDS:
        answer = word.sub("", answer)
    for old, new in _REPLACED:
        answer = answer.replace(old, new)
    for unit in _UNITS:
        answer = _without(unit, answer)
    for pattern, kept in _WRAPPERS:
        answer = pattern.sub(kept, answer)
    answer = answer.replace("$", "")
    return answer.replace(",", "") if _THOUSANDS.fullmatch(answer) else answer


def _without(unit: str, answer: str) -> str:
    """Remove a unit, but not from within the name of a LaTeX command."""
    if not unit.isalpha():
        return answer.replace(unit, "")
    pieces = _COMMAND.split(answer)
    pieces[::2] = [piece.replace(unit, "") for piece in pieces[::2]]
    return "".join(pieces)
