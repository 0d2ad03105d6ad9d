"""JSON on one line, whichever characters a reader takes for a line end."""

from typing import Any, Final

import msgspec

_LINE_ENDS: Final = {letter.encode(): f"\\u{ord(letter):04x}".encode() for letter in "\u0085\u2028\u2029"}
"""JSON has such bytes inside strings alone, and in no other character."""


def json_line(value: Any) -> bytes:
    """Return a value as JSON in UTF-8 and a line feed, no other character of which is called a line end by anybody
    (U+0085, U+2028 and U+2029 are written as escapes, as JSON demands for those below U+0020). Raises
    UnicodeEncodeError if a text holds half a character."""
    line = msgspec.json.encode(value)
    for end, escape in _LINE_ENDS.items():
        line = line.replace(end, escape)
    return line + b"\n"
