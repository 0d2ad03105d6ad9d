"""Cells of CSV and Markdown tables. Their text comes from files and other people: none of it ends its cell, becomes a
formula in a spreadsheet, a markup, or a control sequence."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

from rwkvctl.text.sanitize import safe_line

FORMULA: Final = tuple("=+-@＝＋－＠")
"""What a spreadsheet takes for the beginning of a formula, in full width too."""

NUMBER: Final = re.compile(r"[-+]?[0-9.,]+([eE][-+]?[0-9]+)?( ?%)?")
MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+!|<>~&])")


def csv_line(cells: Sequence[object], delimiter: str = ",") -> str:
    """One line of CSV, with its line feed."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow([csv_cell(cell) for cell in cells])
    return line.getvalue()


def csv_cell(cell: object) -> object:
    """Return a number unchanged, and a text escaped so that no spreadsheet computes it and no terminal obeys it."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (int, float)):
        return cell
    text = safe_line(str(cell))
    return f"'{text}" if text.startswith(FORMULA) and not NUMBER.fullmatch(text) else text


def markdown_line(cells: Sequence[str]) -> str:
    """One line of a table, with its line feed; what a cell holds is shown as it is, whatever it looks like."""
    return "| " + " | ".join(MARKUP.sub(r"\\\1", safe_line(cell)) for cell in cells) + " |\n"


def markdown_rule(columns: int) -> str:
    """The line between a table's titles and its rows."""
    return "|" + "|".join(["---"] * columns) + "|\n"
