"""The tests that rows of contest benchmarks hold, unpacked. Source: LiveCodeBench `code_generation.py` (28fef95)."""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping
from typing import Any

_MOST_BYTES = 1 << 30


class BadTestsError(ValueError):
    """The tests of a row cannot be read."""


class _OnlyText(pickle.Unpickler):
    """Reads strings. A pickle that names any class or function is refused, because building it would run it."""

    def find_class(self, module: str, name: str) -> Any:
        raise BadTestsError(f"private tests name {module}.{name}, and must be text only")

    def persistent_load(self, pid: Any) -> Any:
        raise BadTestsError(f"private tests refer to {pid!r}, and must be text only")


def decode_private_tests(text: str) -> list[dict[str, str]]:
    """Return private tests of LiveCodeBench from JSON, or from base64 of zlib of a pickled string of JSON. Raises
    BadTestsError."""
    try:
        tests = json.loads(text)
    except ValueError:
        tests = _unpacked(text)
    if not isinstance(tests, list) or not all(
        isinstance(test, dict) and {"input", "output"} <= set(test) for test in tests
    ):
        raise BadTestsError("private tests are no list of inputs and outputs")
    return tests


def _unpacked(text: str) -> Any:
    try:
        unzip = zlib.decompressobj()  # what is beyond the limit is cut off, and a cut pickle is refused
        packed = unzip.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        inner = _OnlyText(io.BytesIO(packed)).load()
        return json.loads(inner) if isinstance(inner, str) else None
    except BadTestsError:
        raise
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError, EOFError, IndexError, KeyError) as error:
        raise BadTestsError(f"private tests cannot be unpacked: {error}") from error


def livecodebench_tests(public: str, private: str, metadata: str) -> dict[str, Any]:
    """Return the row's `input_output` (inputs, outputs, fn_name) from the three columns of LiveCodeBench."""
    tests = json.loads(public) + decode_private_tests(private)
    name = (json.loads(metadata) if metadata else {}).get("func_name") or ""
    return {
        "inputs": [test["input"] for test in tests],
        "outputs": [test["output"] for test in tests],
        "fn_name": name,
    }


def input_output(row: Mapping[str, Any]) -> tuple[list[Any], list[Any], str]:
    """Return (inputs, outputs, name of the function or "") of a row; the column may be JSON. Raises BadTestsError."""
    column = row["input_output"]
    try:
        tests = json.loads(column) if isinstance(column, str) else column
        inputs, outputs, name = tests["inputs"], tests["outputs"], tests.get("fn_name") or ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadTestsError(f"input_output cannot be read: {error}") from error
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs) or not inputs:
        raise BadTestsError("input_output needs as many outputs as inputs, and at least one")
    return inputs, outputs, name


def keys_as_numbers(value: Any) -> Any:
    """Return a value with numeric keys of dictionaries restored, which JSON turned into text (APPS, TACO)."""
    if not isinstance(value, dict):
        return value
    try:
        return {int(key): item for key, item in value.items()}
    except ValueError:
        return value
