r"""Rows in the form of HumanEval: the beginning of a function, and a test that calls it.

    {"task_id": "HumanEval/53", "prompt": "\n\ndef add(x: int, y: int):\n    \"\"\"Add two numbers ...",
     "entry_point": "add", "canonical_solution": "    return x + y\n",
     "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    ..."}

HumanEval-X and HumanEvalPack have further columns, and call `check` themselves at the end of the test; HumanEval-X does
not name the function.
"""

import ast
import re
import warnings
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row

_CALL: Final = re.compile(r"\ncheck\((\w+)\)\s*\Z", re.ASCII)


def from_source(raw: Row) -> dict[str, Any]:
    """The columns that are needed; the reference solution is the answer."""
    test = rows.text(raw, "test")
    called = _CALL.search(test)
    return {
        "prompt": rows.text(raw, "prompt"),
        "entry_point": str(raw.get("entry_point") or (called[1] if called else "")),
        "test": test[: called.start()] + "\n" if called else test,
        "answer": rows.text(raw, "canonical_solution"),
        "id": rows.text(raw, "task_id"),
    }


def fix_from_source(raw: Row) -> dict[str, Any]:
    """The same with the solution that is to be repaired."""
    return from_source(raw) | {"buggy_solution": rows.text(raw, "buggy_solution")}


def check_row(row: Row) -> None:
    """Refuse a row without a function to test, or whose test is no program that defines `check`."""
    rows.text(row, "prompt")
    check_name(row)
    names = {node.name for node in parsed(rows.text(row, "test"), "test").body if isinstance(node, ast.FunctionDef)}
    if "check" not in names:
        raise RowError("'test' defines no function 'check'")


def check_fix(row: Row) -> None:
    """The same, and there is something to repair."""
    check_row(row)
    rows.text(row, "buggy_solution")


def check_name(row: Row) -> None:
    """The function to test must have a name."""
    if not rows.text(row, "entry_point").isidentifier():
        raise RowError(f"'entry_point' is {row['entry_point']!r}, not a name")


def parsed(code: str, field: str) -> ast.Module:
    """A program, read and not run. Raises RowError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes such as "\d" in a plain string are not our affair
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RowError(f"{field!r} is no Python program ({error})") from error
