"""What a table shows, as a file: CSV, TSV, JSON or Markdown by the name's ending."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rwkvctl.export.output import whole_file
from rwkvctl.text.table_cells import csv_line, markdown_line, markdown_rule
from rwkvctl.tui.widgets.wrapped_text import Part

KINDS: Final = (".csv", ".tsv", ".json", ".md")
Rows = Sequence[Sequence[str]]


def written(path: Path, titles: Sequence[str], rows: Rows) -> None:
    """Write a file that was not there. Raises RwkvctlError, and ValueError for an ending that says no format."""
    if path.suffix not in KINDS:
        raise ValueError(f"{path.name}: the name must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    with whole_file(path, force=False) as file:
        file.write(text(path.suffix, titles, rows))


def text(kind: str, titles: Sequence[str], rows: Rows) -> str:
    """Return the content of a file by its suffix: `.json`, `.md`, `.tsv`, else CSV."""
    if kind == ".json":
        items = [dict(zip(titles, row, strict=True)) for row in rows]
        return json.dumps(items, ensure_ascii=False, indent=1) + "\n"
    if kind == ".md":
        return "".join([markdown_line(titles), markdown_rule(len(titles)), *map(markdown_line, rows)])
    delimiter = "\t" if kind == ".tsv" else ","
    return "".join(csv_line(row, delimiter) for row in [titles, *rows])


def page_written(path: Path, parts: Sequence[Part]) -> None:
    """Write parts of a page as plain text, as they are seen. Raises RwkvctlError if the file is there."""
    with whole_file(path, force=False) as file:
        for part in parts:
            title = "".join(text for text, _ in part.title)
            file.write("\n".join([f"== {title}", *(line.text for line in part.lines), "", ""]))
