"""Data inside a page: JSON that no text in it can break out of."""

import json
from typing import Final

BREAKING: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could end a script element, or begin another one; inside a JSON string they may be written so."""


def embedded(known: object) -> str:
    """Data as JSON that cannot end its element."""
    text = json.dumps(known, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char, spelled in BREAKING.items():  # a table is far slower, and there may be tens of megabytes
        text = text.replace(char, spelled)
    return text
