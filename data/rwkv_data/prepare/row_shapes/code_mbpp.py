"""Rows in the form of MBPP: a task in a sentence, a solution, and assertions.
    mbpp.jsonl           {"task_id": 11, "text": "...", "code": "...", "test_setup_code": "", "test_list": [...], ...}
    sanitized-mbpp.json  {"task_id": 2, "prompt": "...", "code": "...", "test_imports": ["import math"],
                          "test_list": ["assert ..."], ...}

The sanitised rows are those whose wording people have checked.
"""

from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.row_shapes.code_human_eval import parsed

TEST: Final = range(11, 511)
"""The task numbers of the test split; 1 to 10 are for examples."""
SHOWN: Final = (2, 3, 4)
"""The tasks that Austin et al. show as examples, and lm-evaluation-harness with them."""


def row_of(raw: Row) -> dict[str, Any]:
    """Return the row of either form; its answer is the reference solution, which names the functions that are
    tested."""
    code = rows.text(raw, "code")
    return {
        "prompt": str(rows.first(raw, "text", "prompt") or ""),
        "test_list": rows.texts(raw, "test_list"),
        "test_setup_code": str(raw.get("test_setup_code") or ""),
        "test_imports": list(raw.get("test_imports") or []),
        "code": code,
        "answer": code,
        "id": rows.whole(raw, "task_id"),
    }


def from_source(raw: Row) -> dict[str, Any] | None:
    """Return a row of the test split; None for the other splits of the file."""
    return row_of(raw) if raw["task_id"] in TEST else None


def example_from_source(raw: Row) -> dict[str, Any] | None:
    """Return a row that is one of the examples of Austin et al. (SHOWN); None for any other."""
    return row_of(raw) if raw["task_id"] in SHOWN else None


def check_row(row: Row) -> None:
    """Check that a row has a task and assertions that can be parsed. Raises RowError."""
    rows.text(row, "prompt")
    if not rows.texts(row, "test_list"):
        raise RowError("'test_list' is empty")
    for test in row["test_list"]:
        parsed(test, "test_list")
    rows.texts(row, "test_imports")
