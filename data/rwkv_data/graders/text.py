"""exact-text-v1 and text-v1: short answers compared as text. Ends with the box if the prompt has opened one.

exact-text-v1 takes nothing but blanks off the ends. text-v1 compares normal forms: Unicode NFKC, no case, one blank for
white space, no marks of emphasis, quotes or full stop around it. `aliases` of the row count like its answer.
"""

import re
import unicodedata

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.extract import after_thinking
from rwkv_data.graders.maths.boxed import inside_box

_AROUND = " \t\r\n*_`\"'“”‘’.。!！"
_LONGEST = 2000


def normal(text: str) -> str:
    """Return the normal form in which texts are compared."""
    folded = unicodedata.normalize("NFKC", text[:_LONGEST]).casefold()
    return re.sub(r"\s+", " ", folded).strip(_AROUND)


def grade(row: Row, answer: Answer) -> Grade:
    """Grade by equality of the normal forms with the reference or one of its aliases."""
    accepted = {normal(str(text)) for text in (row["answer"], *(row.get("aliases") or ()))} - {""}
    predicted = inside_box(after_thinking(answer.text))
    return _verdict(row, predicted, normal(predicted) in accepted)


def grade_exact(row: Row, answer: Answer) -> Grade:
    """Grade by equality with the reference, ignoring outer blanks."""
    predicted = inside_box(after_thinking(answer.text))
    return _verdict(row, predicted, predicted == str(row["answer"]).strip())


def _verdict(row: Row, predicted: str, right: bool) -> Grade:
    expected = str(row["answer"])
    if not predicted:
        return Grade(0.0, None, expected, "no_answer")
    return Grade(float(right), predicted[:_LONGEST], expected, "right" if right else "wrong", route="all")


EXACT = Grader.of("exact-text-v1", "1", grade_exact)
GRADER = Grader.of("text-v1", "1", grade)
