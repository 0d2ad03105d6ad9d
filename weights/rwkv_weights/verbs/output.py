"""The output of the verbs: a table on a terminal, tab-separated lines in a pipe, or one JSON document.

`rwkvctl.cli.render` draws for the console's side of the socket; this package does not import it.
"""

import shutil
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from rwkvctl.text import tab_lines
from rwkvctl.text.json_envelope import envelope
from rwkvctl.text.quantities import Amount
from rwkvctl.text.sanitize import cell_width, fit, safe_json, safe_line

GAP = "  "


class Column(NamedTuple):
    """`right` aligned; `cut` in the middle where the terminal is too narrow; a `wide` one is dropped before that."""

    title: str
    right: bool = False
    cut: bool = False
    wide: bool = False


class Output:
    """`mode` is table, wide (a table that nothing is cut from), tsv, json, or empty for: a table on a terminal, else
    tsv."""

    def __init__(self, mode: str = "") -> None:
        self.is_tty = sys.stdout.isatty()
        self.mode = mode or ("table" if self.is_tty else "tsv")

    @property
    def as_json(self) -> bool:
        return self.mode == "json"

    def line(self, text: str = "") -> None:
        """Write one line of data to standard output, with control characters made visible."""
        sys.stdout.write(safe_line(text) + "\n")

    def note(self, text: str) -> None:
        """Write a sentence for the operator to standard error."""
        sys.stdout.flush()
        sys.stderr.write(safe_line(text) + "\n")
        sys.stderr.flush()

    def json(self, schema: str, fields: dict[str, Any]) -> None:
        """Write the fields in the envelope that every document of rwkvctl has."""
        text = envelope(schema, fields)
        sys.stdout.write((safe_json(text) if self.is_tty else text) + "\n")

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], empty: str = "") -> None:
        """Write rows under titles, or in a pipe whole and separated by tabs."""
        cells = [[safe_line(cell) for cell in row] for row in rows]
        if self.mode == "tsv":
            sys.stdout.write(
                "".join(f"{line}\n" for line in tab_lines.lines([column.title.lower() for column in columns], rows))
            )
        elif cells:
            sys.stdout.write("".join(f"{line}\n" for line in aligned(columns, cells, self._width())))
        elif empty:
            self.line(empty)

    def _width(self) -> int:
        """Return the terminal's width in cells; 0 for as wide as the table needs."""
        return shutil.get_terminal_size().columns if self.is_tty and self.mode != "wide" else 0


def aligned(columns: Sequence[Column], rows: list[list[str]], width: int) -> list[str]:
    """Return titles and rows in columns within `width` cells (0: as wide as they need)."""
    shown = [[column.title for column in columns], *rows]
    widths = [max(cell_width(row[i]) for row in shown) for i in range(len(columns))]
    kept = list(range(len(columns)))

    def over() -> int:
        return sum(widths[i] for i in kept) + len(GAP) * (len(kept) - 1) - width if width else 0

    for i in [i for i in reversed(kept) if columns[i].wide]:
        if over() > 0:
            kept.remove(i)
    for i in [i for i in reversed(kept) if columns[i].cut]:
        widths[i] = max(12, widths[i] - max(0, over()))
    return [GAP.join(_cell(row[i], columns[i], widths[i]) for i in kept).rstrip() for row in shown]


def _cell(text: str, column: Column, width: int) -> str:
    text = fit(text, width, "middle")
    space = " " * (width - cell_width(text))
    return space + text if column.right else text + space


def billions(value: float | None) -> str:
    """`1.5`, `0.001`; a dash where the name does not say."""
    return "–" if value is None else Amount(f"{value:g}", value)
