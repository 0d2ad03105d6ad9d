r"""lm_eval-gsm8k-v1 and lm_eval-gsm8k-cot-v1: what lm_eval 0.4.13 makes of a GSM8K completion.

The value is its `exact_match,strict-match`, the part `flexible` its `exact_match,flexible-extract`. Its quirks are
kept: 18.0 is not 18, and the rule of gsm8k_cot swallows a character behind the number: "The answer is 18" reads 1.
Prefer number-v1 where no comparison with the harness is wanted.
"""

import re

from rwkv_data.answer import Answer, Grade
from rwkv_data.grader import Grader
from rwkv_data.graders.lm_eval_regex import cleaned, found, verdict
from rwkv_data.stage import Row

_STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
_STRICT_COT = re.compile(r"The answer is (\-?[0-9\.\,]+).")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_IGNORED = tuple(re.compile(pattern) for pattern in (",", r"\$", r"(?s).*#### ", r"\.$"))


def graded(strict: re.Pattern[str], row: Row, text: str) -> Grade:
    """Both filters and their exact match. The reference may be the number alone or the whole solution."""
    expected = str(row["answer"])
    gold = cleaned(expected, _IGNORED)
    extracted, loose = found(strict, text), found(_FLEXIBLE, text, -1)
    flexible = float(cleaned(loose, _IGNORED) == gold)
    return verdict(cleaned(extracted, _IGNORED) == gold, extracted, expected, "strict-match", flexible=flexible)


def grade(row: Row, answer: Answer) -> Grade:
    """The rule of the task gsm8k: the number behind `####`."""
    return graded(_STRICT, row, answer.text)


def grade_cot(row: Row, answer: Answer) -> Grade:
    """The rule of the task gsm8k_cot: the number behind "The answer is"."""
    return graded(_STRICT_COT, row, answer.text)


GSM8K = Grader.of("lm_eval-gsm8k-v1", "1+lm_eval-0.4.13", grade)
COT = Grader.of("lm_eval-gsm8k-cot-v1", "1+lm_eval-0.4.13", grade_cot)
