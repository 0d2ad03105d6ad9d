"""JSON beside weights, and in their headers: untrusted, so bounded and without duplicate keys."""

import json
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.local.checkpoint_files import open_plain

LONGEST_KEY: Final = 200
"""Characters of a name that a message repeats."""


class JsonError(ValueError):
    """The JSON is not valid. The message is a clause."""


def read(path: Path, longest: int) -> dict[str, Any]:
    """Return the table in a file of at most `longest` bytes. Raises UnreadableCheckpointError."""
    try:
        with BufferedReader(open_plain(path, beside=True)) as file:
            text = file.read(longest + 1)
        if len(text) > longest:
            raise UnreadableCheckpointError(f"{path} cannot be used: it is longer than {longest:,} bytes")
        return parse(text, "it")
    except OSError as error:
        raise UnreadableCheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except JsonError as error:
        raise UnreadableCheckpointError(f"{path} cannot be used: {error}") from error


def parse(text: bytes, subject: str) -> dict[str, Any]:
    """Return a JSON object in UTF-8 in which no key occurs twice; `subject` is what the text is. Raises JsonError."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_once)
    except JsonError:
        raise
    except (ValueError, RecursionError) as error:
        raise JsonError(f"{subject} is not JSON") from error
    if not isinstance(found, dict):
        raise JsonError(f"{subject} is not a table")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise JsonError(f"it has {key[:LONGEST_KEY]!r} twice")
        found[key] = value
    return found
