r"""Rows of contest problems (LiveCodeBench, APPS, TACO): a statement, perhaps starter code, and tests.

    LiveCodeBench  {"question_content": "...", "starter_code": "", "difficulty": "easy",
                    "contest_date": "2023-08-21T00:00:00", "public_test_cases": JSON,
                    "private_test_cases": JSON or packed, "metadata": JSON, "question_id": "...", ...}
    APPS, TACO     {"question": "...", "solutions": JSON, "input_output": JSON, "difficulty": "...",
                    "starter_code": "...", ...} (a folder of APPS has difficulty and url in metadata.json)

The tests of LiveCodeBench are gigabytes of text. Its private ones come as a pickle, which is read once, when rows are
prepared, by a reader that knows nothing but text; the prepared rows keep all tests as packed JSON.
"""

import base64
import binascii
import json
import zlib
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.code.contest_tests import BadTestsError, input_output, livecodebench_tests
from rwkv_data.prepare.row_shapes.code_views import seeing

_MOST_BYTES: Final = 1 << 30
_LEVEL: Final = 6


def livecodebench_row(raw: Row) -> dict[str, Any]:
    """A row with its tests packed; `date` is the contest's day."""
    tests = livecodebench_tests(
        rows.text(raw, "public_test_cases"), rows.text(raw, "private_test_cases"), str(raw.get("metadata") or "")
    )
    return {
        "question": rows.text(raw, "question_content"),
        "starter_code": str(raw.get("starter_code") or ""),
        "function": tests["fn_name"],
        "tests": packed(tests),
        "difficulty": rows.text(raw, "difficulty"),
        "date": rows.text(raw, "contest_date")[:10],
        "platform": str(raw.get("platform") or ""),
        "id": str(raw.get("question_id") or ""),
        "answer": "",
    }


def problem_row(raw: Row) -> dict[str, Any] | None:
    """A row of APPS or TACO, or None for a problem without tests, or with tests that cannot be read: nothing can be
    said about answers to it. The first published solution is the answer."""
    metadata = json.loads(raw.get("metadata") or "{}")
    tests = str(raw.get("input_output") or "")
    try:
        _, _, function = input_output({"input_output": tests})
    except BadTestsError:
        return None
    return {
        "question": rows.text(raw, "question"),
        "starter_code": str(raw.get("starter_code") or ""),
        "function": function,
        "input_output": tests,
        "difficulty": str(raw.get("difficulty") or metadata.get("difficulty") or "unknown"),
        "id": str(rows.first(raw, "problem_id", "_file") or ""),
        "url": str(raw.get("url") or metadata.get("url") or ""),
        "answer": next(iter(json.loads(raw.get("solutions") or "[]")), ""),
    }


def check_packed(row: Row) -> None:
    """Refuse a row of LiveCodeBench whose tests cannot be read."""
    rows.text(row, "date")
    check_row(unpacked(row))


def check_row(row: Row) -> None:
    """Refuse a row without a statement, a difficulty, or tests that can be read."""
    rows.text(row, "question")
    rows.text(row, "difficulty")
    if not isinstance(row.get("starter_code"), str) or not isinstance(row.get("function"), str):
        raise RowError("'starter_code' and 'function' must be texts, empty where there is none")
    try:
        _, _, function = input_output(row)
    except (BadTestsError, KeyError) as error:
        raise RowError(f"the tests cannot be read ({error})") from error
    if function != row["function"]:
        raise RowError(f"'function' is {row['function']!r}, and the tests call {function!r}")


def packed(tests: dict[str, Any]) -> str:
    """Tests as text that is about as short as the source's."""
    return base64.b64encode(zlib.compress(rows.json_text(tests).encode("utf-8", "surrogatepass"), _LEVEL)).decode()


def unpacked(row: Row) -> dict[str, Any]:
    """The row with its tests as the grader wants them. Raises RowError."""
    unzip = zlib.decompressobj()
    try:
        text = unzip.decompress(base64.b64decode(str(row.get("tests")), validate=True), _MOST_BYTES)
        return {**row, "input_output": json.loads(text.decode("utf-8", "surrogatepass"))}
    except (binascii.Error, zlib.error, ValueError) as error:
        raise RowError(f"'tests' cannot be unpacked ({error})") from error


def unpacking(grader: Grader) -> Grader:
    """A grader of contest problems for rows with packed tests."""
    return seeing(grader, unpacked)
