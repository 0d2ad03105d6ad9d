"""lm_eval-bbh-cot-v1: how lm_eval 0.4.13 grades chains of thought on BBH.

It reads what follows "the answer is" up to the end of its line, less the last character, whatever that is: a full stop
is cut off, and without one the answer loses its end. On a BBH task with published outputs that costs 1.2 points.
"""

import re

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.lm_eval_regex import found, verdict

_BBH = re.compile(r"(?<=the answer is )(.*)(?=.)")


def grade(row: Row, answer: Answer) -> Grade:
    """Grade by the filter get-answer and an exact match with the row's target."""
    expected, extracted = str(row["answer"]), found(_BBH, answer.text)
    return verdict(extracted == expected, extracted, expected, "get-answer")


BBH = Grader.of("lm_eval-bbh-cot-v1", "1+lm_eval-0.4.13", grade)
