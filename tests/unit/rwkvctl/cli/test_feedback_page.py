"""A page of Markdown from the daemon: as it is in a pipe, its tables fitted for eyes, whatever it holds."""

import io

import pytest

from rwkvctl.cli.commands.feedback import cells, show
from rwkvctl.cli.context import Context
from rwkvctl.cli.render import Terminal
from rwkvctl.text.sanitize import cell_width

PAGE = (
    "# a page of a checkpoint",
    "| benchmark | value | 95 % | against best |",
    "|-----------|-------|------|--------------|",
    r"| a\|b_with_a_name_that_is_much_longer_than_a_terminal_of_sixty_cells | 1.0 % | (0.1 to 2.0) | -55.0 worse |",
    "",
)


def written(page: tuple[str, ...], output: str) -> list[str]:
    out = io.StringIO()
    show(Context(Terminal({"COLUMNS": "60", "NO_COLOR": "1"}, out, io.StringIO()), output=output), page)
    return out.getvalue().split("\n")[:-1]


def test_a_pipe_gets_the_page_as_it_is() -> None:
    assert written(PAGE, "") == list(PAGE)


def test_tables_for_eyes_fit_and_keep_their_verdicts() -> None:
    first, head, row, last = written(PAGE, "table")
    assert (first, last) == (PAGE[0], "")
    assert head.split("  ")[0] == "BENCHMARK"
    assert "95 %" not in head
    assert row.startswith("a|b_with")
    assert row.rstrip().endswith("-55.0 worse")
    assert max(map(cell_width, (head, row))) <= 60


@pytest.mark.parametrize("page", [("|",), ("|", "|"), ("| a |", "|-|", "| a | b |"), ("|", "||", "|||"), ("| a |",)])
def test_what_is_no_table_is_written_as_it_is(page: tuple[str, ...]) -> None:
    assert written(page, "table") == list(page)


def test_cells_are_read_without_the_escapes_of_markdown() -> None:
    assert cells(r"| a\|b | \*c\* |  | \\ |") == ["a|b", "*c*", "", "\\"]
