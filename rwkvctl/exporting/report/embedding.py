"""Data inside a page: JSON that no text in it can break out of."""

import json
from typing import Final

BREAKING: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""What could end a script element, or begin another one; inside a JSON string they may be written so."""


def embedded(known: object) -> str:
    """Data as JSON that cannot end its element."""
    return json.dumps(known, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(BREAKING)
