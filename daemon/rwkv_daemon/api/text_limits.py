"""How long a text of a request may be: whatever is stored, searched for or said again has an end."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

LONGEST: Final = 4096
"""Characters of a text that no other bound is named for: an expression, a search text, a path."""
BOUNDS: Final = {
    "why": 500,
    "reason": 500,
    "group": 255,
    "name": 255,
    "request_id": 128,
    "plan_hash": 128,
    "session": 255,
    "settings": 20_000,
}
"""Those of notes and names, by the field; a setting may be a whole prompt."""


def too_long(request: msgspec.Struct) -> str:
    """What is wrong with the length of a request's texts, as a sentence; empty if nothing is."""
    for name, text in texts(request):
        most = BOUNDS.get(name, LONGEST)
        if len(text) > most:
            return f"`{name}` may have {most:,} characters; there are {len(text):,}."
    return ""


def texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a request with the field it belongs to: those in lists and tables, and the names in tables, too."""
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
