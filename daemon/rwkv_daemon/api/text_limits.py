"""Length limits of the texts in requests: everything that is stored, searched for or repeated has one."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rwkv_data.recipes import recipe_file

LONGEST: Final = 4096
"""Characters of a text without a limit of its own: an expression, a search text, a path."""
BOUNDS: Final = {
    "why": 500,
    "reason": 500,
    "group": 255,
    "suite": 64,
    "note": 500,
    "name": 255,
    "request_id": 128,
    "plan_hash": 128,
    "session": 255,
    "settings": 20_000,
    "toml": recipe_file.LONGEST,
}
"""Limits of notes and names, by field; a setting may be a whole prompt, `toml` is a file."""


def too_long(request: msgspec.Struct) -> str:
    """Return a sentence about the first text of a request that is too long; empty if none is."""
    for name, text in texts(request):
        most = BOUNDS.get(name, LONGEST)
        if len(text) > most:
            return f"`{name}` may have {most:,} characters; there are {len(text):,}."
    return ""


def texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of a request with its field: those in lists and tables, and the keys of tables, too."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from texts(getattr(value, field), field)
    elif isinstance(value, dict):
        for key, held in value.items():
            yield "name", key
            yield from texts(held, name)
    elif isinstance(value, (tuple, list, frozenset)):
        for held in value:
            yield from texts(held, name)
