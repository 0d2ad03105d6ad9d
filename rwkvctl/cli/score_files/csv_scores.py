"""Scores in CSV, with the columns benchmark, kind, metric, value and n, and maybe model."""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from rwkvctl.cli.client import Record
from rwkvctl.cli.parser import UsageError

COLUMNS: Final = ("benchmark", "kind", "metric", "value", "n")
MODEL: Final = "model"
SEPARATORS: Final = {";": "semicolons", "\t": "tabs"}
NAMED: Final = 8
LONGEST_CELL: Final = 131_072

Line = tuple[int, Mapping[str, str]]
"""The number of a line, and its cells by column."""


class ScoresInCsv(NamedTuple):
    """The scores of one model, as the daemon takes them, and the names of the others in the file."""

    scores: list[Record]
    other_models: list[str]


def read(path: str, text: str, model: str) -> ScoresInCsv:
    """Return the scores of a model. Raises UsageError that names the line."""
    rows = list(lines_of(path, text))
    names = list(dict.fromkeys(row[MODEL] for _, row in rows))
    if not rows:
        raise UsageError(f"{path} has no scores.")
    if "" in names and names != [""]:
        line = next(line for line, row in rows if not row[MODEL])
        raise UsageError(f"{path}:{line}: no model is named, while other lines name one.")
    if names != [""] and model not in names:
        raise UsageError(f"{path} has no scores of {model}; it has those of {', '.join(names[:NAMED])}.")
    scores = [score_of(path, line, row) for line, row in rows if row[MODEL] in {"", model}]
    return ScoresInCsv(scores, [name for name in names if name not in {"", model}])


def lines_of(path: str, text: str) -> Iterator[Line]:
    """Yield the lines that are not empty. Raises UsageError for one that is not as the first line says."""
    csv.field_size_limit(LONGEST_CELL)  # of the process: what read other tables before may have raised it
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        titles = titles_of(path, next(reader, []), text)
        for cells in reader:
            if len(cells) > len(titles):
                raise UsageError(f"{path}:{reader.line_num}: there are more values than columns.")
            row = dict(zip(titles, (*(cell.strip() for cell in cells), *("" for _ in titles)), strict=False))
            if any(row.values()):
                yield reader.line_num, {MODEL: "", **row}
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}.") from error


def titles_of(path: str, cells: list[str], text: str) -> list[str]:
    """Return the names of the columns. Raises UsageError if one that is needed is missing, or there twice."""
    titles = [cell.strip().lower() for cell in cells]
    if missing := [name for name in COLUMNS if titles.count(name) != 1]:
        other = next((name for sign, name in SEPARATORS.items() if sign in text.partition("\n")[0]), "")
        hint = f" It is separated by {other}: save it with commas." if other and len(titles) < len(COLUMNS) else ""
        needed = f"the columns {', '.join(COLUMNS)} are needed, each once; {', '.join(missing)} is not there so."
        raise UsageError(f"{path}:1: {needed}{hint}")
    if titles.count(MODEL) > 1:
        raise UsageError(f"{path}:1: the column model is there twice.")
    return titles


def score_of(path: str, line: int, row: Mapping[str, str]) -> Record:
    """Return one score. Raises UsageError for a cell that says nothing."""
    place = f"{path}:{line}"
    if empty := [name for name in COLUMNS if not row[name]]:
        raise UsageError(f"{place}: {', '.join(empty)} is empty.")
    named = {name: row[name] for name in ("benchmark", "kind", "metric")}
    return {**named, "value": value_of(place, row["value"]), "n": rows_of(place, row["n"]), "place": place}


def value_of(place: str, text: str) -> float:
    """Return a value. Raises UsageError for one that is no number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{place}: value {text!r} is no number; a share of 41.2 % is 0.412.")
    return value


def rows_of(place: str, text: str) -> int:
    """Return a number of rows. Raises UsageError for a text that is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 15 and int(text) > 0):
        raise UsageError(f"{place}: n {text!r} is no number of rows, such as 1319.")
    return int(text)
