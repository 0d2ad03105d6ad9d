"""Raw rows of csv and tsv. Cells stay text: "None" and "N/A" are words, which data-frame readers turn into nothing.
The `datasets` library is one of them, and gives other types to ids and to choices that are numbers (C-Eval, CMMLU).

With a header line a row is {"column": "cell", ...}; without one it is {"cells": [...], "subject": name of the file}.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import streams
from rwkv_data.prepare.sources.raw import Placed

ASKED: Final = ("question", "problem", "prompt", "input", "instruction", "query", "text", "body", "source", "sentence")
ANSWERED: Final = ("answer", "label", "target", "output", "solution", "choice")
"""A first line is a header if one cell is a word of the one kind and another holds a word of the other, or if choices
named A to D stand there (a split whose labels are hidden)."""


def of_table(
    stream: IO[bytes], where: str, subject: str, *, tabs: bool, header: bool | None = None
) -> Iterator[Placed]:
    """Yield the rows of a table, each with the line it begins in. `header`: whether there is one; None to detect it."""
    records = _records(stream, where, tabs=tabs)
    first = next(records, None)
    if first is None:
        return
    if header is None:
        header = is_header(first[1])
    if not header:
        for place, cells in _chain(first, records):
            yield place, {"cells": cells, "subject": subject}
        return
    for place, cells in records:
        yield place, _named(first[1], cells, place)


def is_header(cells: list[str]) -> bool:
    """Whether the first line of a table names its columns; see `ASKED` and `ANSWERED`."""
    names = [cell.strip().casefold() for cell in cells]
    if len(set(names)) < len(names) or any(len(name) > 40 for name in names):
        return False
    asked = [name for name in names if name in ASKED]
    answered = any(word in name for name in names if name not in asked for word in ANSWERED)
    return bool(asked) and (answered or {"a", "b", "c", "d"} <= set(names))


def _chain(first: tuple[str, list[str]], rest: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    yield first
    yield from rest


def _named(names: list[str], cells: list[str], place: str) -> dict[str, Any]:
    if len(cells) != len(names):
        raise PrepareError(f"{place}: {len(cells)} cells under {len(names)} columns")
    return dict(zip((name.strip() for name in names), cells, strict=True))


def _records(stream: IO[bytes], where: str, *, tabs: bool) -> Iterator[tuple[str, list[str]]]:
    csv.field_size_limit(streams.MOST_AT_ONCE)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter="\t" if tabs else ",", strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield f"{where}:{line}", cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise PrepareError(f"{where}:{line}: {error}") from None
    except UnicodeDecodeError:
        raise PrepareError(f"{where}: not UTF-8 after line {line}") from None
    finally:
        text.detach()
