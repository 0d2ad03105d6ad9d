"""Tab-separated lines, for the command line and the programs that it becomes: the one place where a table is written
for other programs. A header line and a line a row; numbers plain, nothing where nothing is known, nothing cut."""

from collections.abc import Iterable, Sequence

from rwkvctl.text.quantities import plain
from rwkvctl.text.sanitize import safe_line


def lines(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines without their ends. A tab or a line end inside a cell is shown as its picture."""
    return ["\t".join(safe_line(plain(cell)) for cell in row) for row in [titles, *rows]]
