"""A grader that sees rows in another form than the one they are stored in."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.definition.stage import Row


def seeing(grader: Grader, view: Callable[[Row], Row], *, name: str = "") -> Grader:
    """The grader, shown `view(row)` instead of each row; `name` where its verdicts differ by that."""

    @contextlib.contextmanager
    def opened(**options: Any) -> Iterator[GradeFunction]:
        with grader.open(**options) as grade:
            yield lambda row, answer: grade(view(row), answer)

    return replace(grader, name=name or grader.name, open=opened)
