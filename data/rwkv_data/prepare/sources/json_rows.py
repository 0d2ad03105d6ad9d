"""Raw rows of JSON: one object a line, a list, or a list below a name. Integers of any size and NaN stay.

Not read by the `datasets` library, which makes one table of a file: a field that a row lacks becomes None (Gaokao 2023,
MATH 24/25), integers beyond 64 bits are refused (HumanEval+, MBPP+), and texts like 2024-08-01T00:00:00 become times
(LiveCodeBench). Whether a file has any of that is known only when it is read; tests/integration/data/
test_source_datasets.py lists all differences on the real rows.
"""

import io
import json
from collections.abc import Iterator
from typing import IO, Any, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import streams
from rwkv_data.prepare.sources.raw import Placed

LISTS: Final = ("examples", "data", "rows", "questions", "problems", "instances")
"""Names under which a JSON object holds its rows; BIG-Bench Hard says "examples"."""


def of_lines(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of JSON lines; blank lines are nothing."""
    for number, line in enumerate(streams.lines(stream, where), 1):
        if line.strip():
            place = f"{where}:{number}"
            yield place, _object(parsed(streams.decoded(line, place), place), place)


def of_document(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of one JSON document, or of JSON lines in a file that is called .json."""
    content = streams.decoded(streams.whole(stream, where), where).strip()
    value, end = _first(content, where)
    if end < len(content):
        # An object and then another: no document goes on like that, JSON lines do.
        yield from of_lines(io.BytesIO(content.encode()), where)
        return
    for number, item in enumerate(_list(value, where), 1):
        place = f"{where} item {number}"
        yield place, _object(item, place)


def parsed(content: str, where: str) -> Any:
    """A JSON value. Integers too long for Python to read at once are refused like bad syntax."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PrepareError(f"{where}: not JSON ({error})") from None


def _first(content: str, where: str) -> tuple[Any, int]:
    """The first JSON value of a text and where it ends."""
    try:
        return json.JSONDecoder().raw_decode(content)
    except (ValueError, RecursionError) as error:
        raise PrepareError(f"{where}: not JSON ({error})") from None


def _list(value: Any, where: str) -> list[Any]:
    if isinstance(value, dict):
        value = next((value[name] for name in LISTS if isinstance(value.get(name), list)), value)
    if not isinstance(value, list):
        raise PrepareError(f"{where} holds no JSON list, nor one under {', '.join(LISTS)}")
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PrepareError(f"{where}: not a JSON object")
    return value
