"""Tables, colours and numbers for a terminal, and the same as tab-separated lines for a pipe.

Nothing here knows the daemon. Every text is made safe on its way out, whoever wrote it, unless it is `Styled`.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TextIO

from rwkvctl.protocol.model_names import shorter
from rwkvctl.text import tab_lines as tabs
from rwkvctl.text.quantities import Amount
from rwkvctl.text.sanitize import LINE_END, Styled, cell_width, fit, safe_json, safe_line, safe_text, styled

Role = Literal["", "ok", "warn", "bad", "worse", "info", "dim", "bold", "title"]
SGR: Final[dict[str, str]] = {
    "ok": "32", "warn": "33", "bad": "31", "worse": "31", "info": "36", "dim": "2", "bold": "1", "title": "1;4",
}  # fmt: skip

GAP: Final = "  "
NARROWEST: Final = 8
LONGEST: Final = 4000
"""Cells of a line of text; of a longer one, which nobody reads, the beginning is shown."""
SPARED: Final = 14
"""Cells by which a sentence may stay wider than a name when both must be shortened."""

BLANK: Final = frozenset({"", "–"})
ZERO: Final = BLANK | {"0"}
MARKS: Final[dict[str, tuple[str, Role]]] = {
    "queued": ("◌", "info"), "starting": ("◌", "info"), "generating": ("▸", "ok"), "grading": ("▸", "ok"),
    "judging": ("▸", "ok"), "done": ("✓", "ok"), "held": ("!", "warn"), "paused": ("‖", "dim"),
    "stopping": ("‖", "warn"), "stopped": ("‖", "dim"), "failed": ("✗", "bad"),
}  # fmt: skip
"""A glyph and a colour for every job state; the word always stands beside them."""


class Cell(NamedTuple):
    """A text with a meaning that may be coloured; `plain` is what a pipe gets in its place."""

    text: str
    role: Role = ""
    plain: str = ""


class Column(NamedTuple):
    """A column: `right` aligned; `cut` says how it may be shortened (a "model" loses first what tells least in a
    checkpoint's name); a `wide` one is dropped where it does not fit, a `calm` one where it does not and all is zero.
    A `drawn` one is for eyes only, a `piped` one for pipes only, where it is called `name` if that is another word."""

    title: str
    right: bool = False
    cut: Literal["", "end", "middle", "model"] = ""
    wide: bool = False
    drawn: bool = False
    calm: bool = False
    piped: bool = False
    name: str = ""


class Table(NamedTuple):
    """Columns and rows. `empty` is what a person reads when there are none, `name` what a row is, which a pipe is told
    where there are several tables."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell]]
    empty: str = ""
    name: str = ""


class Terminal:
    """Where output goes: standard output for data, standard error for everything else."""

    def __init__(self, environ: Mapping[str, str], out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out, self.err = out or sys.stdout, err or sys.stderr
        self.environ = environ
        self.is_tty, self.err_is_tty = self.out.isatty(), self.err.isatty() and environ.get("TERM") != "dumb"
        self.colour, self.err_colour = wants_colour(environ, self.out), wants_colour(environ, self.err)

    @property
    def width(self) -> int:
        """Columns of the terminal; 80 where there is none."""
        return self._size()[0]

    @property
    def height(self) -> int:
        """Lines of the terminal; 24 where there is none."""
        return self._size()[1]

    def write(self, text: str) -> None:
        """Data, one text of whole lines. Unless it is Styled it is made safe, in a pipe too: pipes end on terminals."""
        self.out.write(text if isinstance(text, Styled) else safe_text(text))
        self.out.flush()

    def line(self, text: str = "", role: Role = "") -> None:
        """Write one line of data in the colour of its role."""
        self.write(styled(paint(text, role, self.colour), LINE_END))

    def note(self, text: str, role: Role = "") -> None:
        """A line for the operator, on standard error."""
        shown = text if isinstance(text, Styled) else fit(safe_line(text), LONGEST)
        self.draw(styled(paint(shown, role, self.err_colour), LINE_END))

    def draw(self, text: Styled) -> None:
        """Something on standard error that is no line: a question, or lines that are redrawn."""
        self.err.write(text)
        self.err.flush()

    def json(self, raw: str) -> None:
        """A JSON document as it came; on a terminal, characters that it would obey or hide are written as escapes."""
        self.out.write((safe_json(raw) if self.is_tty else raw).rstrip("\n") + "\n")
        self.out.flush()

    def table(self, table: Table, *, tabs: bool, whole: bool = False) -> None:
        """A table: aligned and within the terminal's width (or `whole`, as wide as it is), or tab-separated."""
        if tabs:
            self.write("".join(line + "\n" for line in separated(table)))
        elif table.rows:
            width = self.width if (self.is_tty or "COLUMNS" in self.environ) and not whole else 0
            self.write(lines_of(aligned(table, width, colour=self.colour)))
        elif table.empty:
            self.line(table.empty, "dim")

    def _size(self) -> tuple[int, int]:
        from os import get_terminal_size, terminal_size

        columns, lines = self.environ.get("COLUMNS", ""), self.environ.get("LINES", "")
        for stream in (self.out, self.err):
            if stream.isatty():
                size = get_terminal_size(stream.fileno())
                break
        else:
            size = terminal_size((80, 24))
        return number(columns) or size[0] or 80, number(lines) or size[1] or 24


def wants_colour(environ: Mapping[str, str], stream: TextIO) -> bool:
    """NO_COLOR, then FORCE_COLOR, then TERM=dumb, then whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb"


def paint(text: str, role: Role, colour: bool) -> Styled:
    """The text, made safe, in the colour of its role."""
    shown = styled(text)
    return Styled(f"\x1b[{SGR[role]}m{shown}\x1b[0m") if colour and role and text else shown


def lines_of(lines: Iterable[str]) -> Styled:
    """Return the lines as one text, each made safe and ended by a newline."""
    return styled(*(part for line in lines for part in (line, LINE_END)))


def separated(*tables: Table) -> list[str]:
    """Title line and rows, cells separated by tabs, nothing cut, nothing coloured. Several tables are one, with the
    columns of all: the first says of each row which table it is from."""
    told = [{(column.name or column.title).lower(): i for i, column in enumerate(table.columns) if not column.drawn}
            for table in tables]  # fmt: skip
    if len(tables) == 1:
        return tabs.lines([*told[0]], ([plain_of(row[i]) for i in told[0].values()] for row in tables[0].rows))
    titles = list(dict.fromkeys(title for places in told for title in places))
    rows = (
        [table.name, *(plain_of(row[places[title]]) if title in places else "" for title in titles)]
        for table, places in zip(tables, told, strict=True)
        for row in table.rows
    )
    return tabs.lines(["table", *titles], rows)


def seen(table: Table) -> Table:
    """Return the table as shown on a terminal: without the columns that only a pipe gets."""
    kept = [i for i, column in enumerate(table.columns) if not column.piped]
    columns, rows = [table.columns[i] for i in kept], [[row[i] for i in kept] for row in table.rows]
    return table._replace(columns=columns, rows=rows)


def aligned(table: Table, width: int, *, colour: bool) -> list[Styled]:
    """Title line and rows in columns; `width` 0 means as wide as they need."""
    table = seen(table)
    most = LONGEST if width else None
    cells = [[Cell(safe_line(text_of(cell)[:most]), role_of(cell)) for cell in row] for row in table.rows]
    kept, widths, gap = layout(table.columns, cells, width)
    titles = [Cell(safe_line(table.columns[i].title), "dim") for i in kept]
    columns = [table.columns[i] for i in kept]
    lines = [one_row(titles, [column._replace(cut="end") for column in columns], widths, colour)]
    lines += [one_row([row[i] for i in kept], columns, widths, colour) for row in cells]
    return [row_of(line, gap) for line in lines]


class Layout(NamedTuple):
    """Which columns are shown, how wide each is, and what stands between them."""

    kept: list[int]
    widths: list[int]
    gap: str


def layout(columns: Sequence[Column], cells: list[list[Cell]], width: int) -> Layout:
    """How a table is laid out in `width` cells (0: as wide as it needs).

    Where it does not fit: drop empty columns, narrow the gaps, drop wide columns from the right, then shorten those
    that may be cut.
    """
    natural = [max(cell_width(text) for text in texts) for texts in zip(*texts_of(columns, cells), strict=True)]
    kept, gap = list(range(len(columns))), GAP
    if not width or total(natural, kept, gap) <= width:
        return Layout(kept, natural, gap)
    natural = [min(width, cells_of) for cells_of in natural]
    kept = [i for i in kept if any(row[i].text not in (ZERO if columns[i].calm else BLANK) for row in cells)] or kept
    if total(natural, kept, gap) > width:
        gap = " "
    while total(natural, kept, gap) > width and (wide := [i for i in kept if columns[i].wide]):
        kept.remove(wide[-1])
    widths = [natural[i] for i in kept]
    while sum(widths) + len(gap) * (len(kept) - 1) > width:
        able = [n for n, i in enumerate(kept) if columns[i].cut and widths[n] > NARROWEST]
        if not able:
            break
        widths[max(able, key=lambda n: widths[n] - SPARED * (columns[kept[n]].cut == "end"))] -= 1
    return Layout(kept, widths, gap)


def texts_of(columns: Sequence[Column], cells: list[list[Cell]]) -> list[list[str]]:
    """Return the texts of the titles, then of each row of cells."""
    return [[column.title for column in columns], *([cell.text for cell in row] for row in cells)]


def total(widths: list[int], kept: list[int], gap: str) -> int:
    """Return the terminal cells that these columns need side by side."""
    return sum(widths[i] for i in kept) + len(gap) * (len(kept) - 1)


def row_of(parts: list[Styled], gap: str) -> Styled:
    """The cells of one line side by side, without blanks at its end."""
    return Styled(gap.join(parts).rstrip(" "))


def one_row(row: list[Cell], columns: list[Column], widths: list[int], colour: bool) -> list[Styled]:
    """The cells of one line, each as wide as its column."""
    drawn = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        text = short_model(cell.text, width) if column.cut == "model" else fit(cell.text, width, column.cut or "end")
        space = " " * (width - cell_width(text))
        shown = paint(text, cell.role, colour)
        drawn.append(styled(space, shown) if column.right else styled(shown, space))
    return drawn


def short_model(name: str, width: int) -> str:
    """A checkpoint's safe name, or as much of it as there is room for."""
    for form in shorter(name):
        if cell_width(form) <= width:
            return form
    return fit(form, width, "middle")


def text_of(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def plain_of(cell: str | Cell) -> str:
    """Return the text of a cell for a pipe: its `plain` text if it has one."""
    return cell.plain or cell.text if isinstance(cell, Cell) else cell


def role_of(cell: str | Cell) -> Role:
    """Return the cell's role; empty for plain text."""
    return cell.role if isinstance(cell, Cell) else ""


def state_cell(state: str) -> Cell:
    """Return a job's state as a cell, with the mark and the role of that state; a pipe gets the state alone."""
    mark, role = MARKS.get(state, ("?", "warn"))
    return Cell(f"{mark} {state}", role, state)


def number(text: str) -> int:
    """Return a decimal string as a number; 0 if it is not one."""
    return int(text) if text.isdecimal() else 0


def share(done: float, of: float) -> float:
    """`done` of `of` as a fraction; 0 where nothing is to be done."""
    return done / of if of else 0.0


def clock(stamp: str) -> str:
    """The time of day of an RFC 3339 stamp."""
    return stamp[11:19] if len(stamp) >= 19 else stamp


def amount(value: float | None, form: str) -> str:
    """A number in a format of Python's, a dash for none."""
    return "–" if value is None else Amount(format(value, form), value)


def joined(words: Iterable[str]) -> str:
    """Return the words joined with commas; empty words are left out."""
    return ", ".join(word for word in words if word)
