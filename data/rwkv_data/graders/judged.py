"""A rule-based grader whose doubtful answers go to a judge.

An answer that the rule accepts is right. Any other answer becomes `unjudged`, for the daemon's judge to decide; an
empty one stays `no_answer`, as there is nothing to judge. So a judge is asked only where the rule does not suffice, and
an outage leaves a gap in the score, never a wrong answer.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rwkv_data.definition.answer import Grade
from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.judges.judge_rule import JudgeRule


def judged(grader: Grader, rule: JudgeRule) -> Grader:
    """Return the grader with its doubtful answers left to a judge that asks by `rule`."""

    @contextlib.contextmanager
    def opened(**options: Any) -> Iterator[GradeFunction]:
        with grader.open(**options) as grade:
            yield lambda row, answer: _doubted(grade(row, answer))

    return replace(grader, name=f"judged-{grader.name}", open=opened, judge=rule)


def _doubted(grade: Grade) -> Grade:
    if grade.reason == "right" or not grade.extracted:
        return grade
    detail = f"the rule says {grade.reason}" + (f": {grade.detail}" if grade.detail else "")
    return replace(grade, value=None, reason="unjudged", detail=detail)
