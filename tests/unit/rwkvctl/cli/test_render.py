"""Tables fit where they are drawn, pipes get whole lines, colour obeys the environment."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.render import Cell, Column, Table, Terminal, aligned, separated, short_model, wants_colour
from rwkvctl.text.quantities import bar, duration, size
from rwkvctl.text.sanitize import cell_width

TABLE = Table(
    [Column("ID"), Column("NAME", cut="middle"), Column("NOTE", cut="end", wide=True), Column("N", right=True)],
    [[Cell("j1", "bold"), "rwkv7-g1-2.9b-20260814", "a long note about it", "1,319"], ["j2", "x", "", "7"]],
)


class Tty(io.StringIO):
    """A terminal that is not there."""

    def isatty(self) -> bool:
        return True


def test_wide_enough_shows_all() -> None:
    lines = aligned(TABLE, 0, colour=False)
    assert lines[0].split() == ["ID", "NAME", "NOTE", "N"]
    assert lines[2].endswith("    7")


def test_narrow_drops_wide_columns_then_cuts_names() -> None:
    lines = aligned(TABLE, 24, colour=False)
    assert "NOTE" not in lines[0]
    assert all(cell_width(line) <= 24 for line in lines)
    assert "…" in lines[1]
    assert "1,319" in lines[1]


def test_empty_columns_go_first() -> None:
    columns = [Column("A"), Column("EMPTY"), Column("B", wide=True)]
    assert aligned(Table(columns, [["aaaaaaaa", "–", "bbbbbbbb"]]), 19, colour=False)[0].split() == ["A", "B"]


def test_calm_columns_go_where_all_is_zero_and_a_name_keeps_what_tells_it_apart() -> None:
    columns = [Column("MODEL", cut="model"), Column("ERR", right=True, calm=True), Column("N", right=True)]
    names = ["rwkv7-g1-0.1b-20260801-ctx4096", "rwkv7-g1-0.1b-20260910-ctx4096"]
    quiet = aligned(Table(columns, [[name, "0", "60"] for name in names]), 22, colour=False)
    assert quiet == ["MODEL                N", "g1-0.1b-20260801    60", "g1-0.1b-20260910    60"]
    loud = aligned(Table(columns, [[names[0], "0", "60"], [names[1], "3", "60"]]), 26, colour=False)
    assert loud[0].split() == ["MODEL", "ERR", "N"]
    assert "0.1b-20260910" in loud[2]
    assert short_model("a-name-of-another-shape", 10) == "a-nam…hape"


def test_a_title_is_cut_at_its_end() -> None:
    table = Table([Column("BENCHMARK", cut="middle"), Column("N")], [["a_long_benchmark", "1"]])
    assert aligned(table, 10, colour=False)[0] == "BENCHMA… N"


def test_pipe_gets_one_record_a_line() -> None:
    table = Table([Column("ID"), Column("TEXT", cut="end")], [["j1", "two\nlines\tand a tab " + "x" * 300]])
    header, line = separated(table)
    assert header == "id\ttext"
    assert line.count("\t") == 1
    assert len(line) > 300


@given(st.lists(st.lists(st.text(max_size=40), min_size=4, max_size=4), min_size=1, max_size=4), st.integers(60, 130))
def test_any_cell_fits(rows: list[list[str]], width: int) -> None:
    columns = [
        Column("A", cut="end"),
        Column("B", cut="middle"),
        Column("C", cut="end", wide=True),
        Column("D", cut="end"),
    ]
    for line in aligned(Table(columns, rows), width, colour=False):
        assert cell_width(line) <= width
        assert "\x1b" not in line


@pytest.mark.parametrize(
    ("environ", "tty", "expected"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "0"}, False, False),
    ],
)
def test_colour(environ: dict[str, str], tty: bool, expected: bool) -> None:
    assert wants_colour(environ, Tty() if tty else io.StringIO()) is expected


def test_coloured_table_aligns_as_the_plain_one() -> None:
    plain, coloured = aligned(TABLE, 0, colour=False), aligned(TABLE, 0, colour=True)
    assert [len(line) for line in plain] == [len(strip_sgr(line)) for line in coloured]


def strip_sgr(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_empty_table_says_so_to_people_only() -> None:
    terminal = Terminal({}, io.StringIO(), io.StringIO())
    terminal.table(Table([Column("ID")], [], "no jobs"), tabs=False)
    assert terminal.out.getvalue() == "no jobs\n"
    terminal = Terminal({}, io.StringIO(), io.StringIO())
    terminal.table(Table([Column("ID")], [], "no jobs"), tabs=True)
    assert terminal.out.getvalue() == "id\n"


def test_words_for_numbers() -> None:
    assert bar(0.97, 12) == "━━━━━━━━━━━╸"
    assert bar(0.5, 6) == "━━━┄┄┄"
    assert [duration(s) for s in (8, 264, 9660, 273600, None)] == ["8s", "4m24s", "2h41m", "3d04h", "–"]
    assert [size(b) for b in (999, 999_999, 2**33, None)] == ["999 B", "977 KiB", "8.0 GiB", "–"]


def test_pipe_gets_words_in_place_of_marks_and_bars() -> None:
    table = Table([Column("STATE"), Column("PROGRESS", drawn=True)], [[Cell("✓ done", "ok", "done"), "━━━"]])
    assert separated(table) == ["state", "done"]
    assert aligned(table, 0, colour=False)[1] == "✓ done  ━━━"
