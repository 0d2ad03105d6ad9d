r"""Rows of EvalPlus (Liu et al. 2023, arXiv 2305.01210): HumanEval and MBPP with many more inputs.

    {"task_id": "HumanEval/53", "prompt": "...", "entry_point": "add", "canonical_solution": "...", "atol": 0,
     "base_input": [[0, 1], ...], "plus_input": [[-1, 5], ...], "contract": "...", ...}

The catch: inputs hold NaN, infinity and integers beyond 64 bits, which JSON rows cannot say, so the prepared rows keep
both columns as JSON text. One task of MBPP+ has no further inputs, which its file says by an empty object.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.row_shapes.code_human_eval import check_name, parsed
from rwkv_data.prepare.row_shapes.code_views import seeing

INPUTS: Final = ("base_input", "plus_input")
_NOTHING: Final = {"base": 0.0, "plus": 0.0}


def from_source(raw: Row) -> dict[str, Any]:
    """What the grader needs, the inputs as text."""
    solution = rows.text(raw, "canonical_solution")
    return {
        "prompt": rows.text(raw, "prompt"),
        "entry_point": rows.text(raw, "entry_point"),
        "canonical_solution": solution,
        "answer": solution,
        "atol": raw.get("atol") or 0,
        "task_id": rows.text(raw, "task_id"),
        **{name: rows.json_text(raw[name] or []) for name in INPUTS},
    }


def check_row(row: Row) -> None:
    """Refuse a row whose reference solution is no program, or whose inputs are no list of arguments."""
    check_name(row)
    parsed(rows.text(row, "prompt") + rows.text(row, "canonical_solution"), "canonical_solution")
    if not isinstance(row.get("atol"), int | float):
        raise RowError(f"'atol' is {rows.shown(row.get('atol'))}, not a number")
    for name in INPUTS:
        if not all(isinstance(arguments, list) for arguments in _inputs(row, name)):
            raise RowError(f"{name!r} is no list of lists of arguments")
    if not _inputs(row, "base_input"):
        raise RowError("'base_input' is empty")


def plus(grader: Grader) -> Grader:
    """A grader of EvalPlus for these rows, whose grades all have both parts."""
    return _with_parts(seeing(grader, _unpacked))


def _unpacked(row: Row) -> dict[str, Any]:
    return {**row, **{name: _inputs(row, name) for name in INPUTS}}


def _inputs(row: Row, name: str) -> list[Any]:
    try:
        inputs = json.loads(rows.text(row, name))
    except (ValueError, RecursionError) as error:
        raise RowError(f"{name!r} cannot be read ({error})") from error
    if not isinstance(inputs, list):
        raise RowError(f"{name!r} is no list")
    return inputs


def _with_parts(grader: Grader) -> Grader:
    """An answer without code fails both parts, so that their means are over all samples."""

    @contextlib.contextmanager
    def opened(**options: Any) -> Iterator[GradeFunction]:
        with grader.open(**options) as grade:

            def whole(row: Row, answer: Answer) -> Grade:
                found = grade(row, answer)
                return replace(found, parts=_NOTHING) if found.value is not None and not found.parts else found

            yield whole

    return replace(grader, open=opened)
