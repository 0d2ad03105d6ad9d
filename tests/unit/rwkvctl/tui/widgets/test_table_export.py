"""What a table of the console is as a file."""

import csv
import io

import pytest
from hostile import hostile_texts

from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.widgets.table_export import text


@pytest.mark.parametrize("kind", [".csv", ".tsv"])
@pytest.mark.parametrize("cell", hostile_texts(long=False))
def test_no_cell_leaves_its_row_or_is_computed(kind: str, cell: str) -> None:
    written = io.StringIO(text(kind, ["A", "B"], [(cell, "1")]), newline="")
    (_, (shown, beside)) = csv.reader(written, dialect_of(kind))
    assert not shown.startswith(tuple("=+-@"))
    assert (shown.removeprefix("'"), beside) == (safe_line(cell).removeprefix("'"), "1")


def dialect_of(kind: str) -> type[csv.Dialect]:
    return csv.excel_tab if kind == ".tsv" else csv.excel


@pytest.mark.parametrize("number", ["-1.5", "+0.3", "-12 %", "-1,204", "+1e-05"])
def test_a_number_stays_one(number: str) -> None:
    assert text(".csv", ["A"], [(number,)]).split("\n")[1].strip('"') == number
