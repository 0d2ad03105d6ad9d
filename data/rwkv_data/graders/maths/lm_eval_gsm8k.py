r"""lm_eval-gsm8k-v1 and lm_eval-gsm8k-cot-v1: how lm_eval 0.4.13 grades a GSM8K completion.

The value is its `exact_match,strict-match`, the part `flexible` its `exact_match,flexible-extract`. Its quirks are
kept: 18.0 is not 18, and the rule of gsm8k_cot swallows a character behind the number: "The answer is 18" reads 1.
Prefer number-v1 where no comparison with the harness is wanted.
"""

import re

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.lm_eval_regex import found, verdict

_STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
_STRICT_COT = re.compile(r"The answer is (\-?[0-9\.\,]+).")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_STOP_AT_END = re.compile(r"\.$")


def graded(strict: re.Pattern[str], row: Row, text: str) -> Grade:
    """Grade by both filters and their exact match. The reference may be the number alone or the whole solution."""
    expected = str(row["answer"])
    gold = _cleaned(expected)
    extracted, loose = found(strict, text), found(_FLEXIBLE, text, -1)
    flexible = float(_cleaned(loose) == gold)
    return verdict(_cleaned(extracted) == gold, extracted, expected, "strict-match", flexible=flexible)


def _cleaned(text: str) -> str:
    """Normalise a side of the exact match: drop commas, dollars, all up to `#### `, a final full stop and capitals."""
    text = text.replace(",", "").replace("$", "").rpartition("#### ")[2]
    return _STOP_AT_END.sub("", text).lower()


def grade(row: Row, answer: Answer) -> Grade:
    """Grade by the rule of the task gsm8k: the number after `####`."""
    return graded(_STRICT, row, answer.text)


def grade_cot(row: Row, answer: Answer) -> Grade:
    """Grade by the rule of the task gsm8k_cot: the number after "The answer is"."""
    return graded(_STRICT_COT, row, answer.text)


GSM8K = Grader.of("lm_eval-gsm8k-v1", "1+lm_eval-0.4.13", grade)
COT = Grader.of("lm_eval-gsm8k-cot-v1", "1+lm_eval-0.4.13", grade_cot)
