"""The class of an answer when the answers to one question are counted (maj@k).

Right answers are one class, whatever their form: the grader has found them equal to the reference. Others are a class
if they are the same text in normal form, or the same number. Answers that differ in form but not in value can thus
split their votes; that never happens to the right one.
"""

from rwkv_data.graders.maths import answer_text
from rwkv_data.graders.maths.number import final_number

RIGHT = "="
_LONGEST = 200


def vote(value: float | None, extracted: str | None) -> str | None:
    """Return the class of a graded answer; None if it has no vote: no answer was found, or it has no value."""
    if value == 1.0:
        return RIGHT
    if value is None or extracted is None:
        return None
    text = answer_text.setting_aside(extracted).casefold()
    if answer_text.is_number(text) and (number := final_number(text)) is not None:
        return f"#{number.value}"[:_LONGEST]
    return f"~{text}"[:_LONGEST]
