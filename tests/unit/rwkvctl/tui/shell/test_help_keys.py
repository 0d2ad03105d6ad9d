"""Help is made from the bindings themselves: nothing that can be pressed is missing in it, or on its page."""

from pathlib import Path

import pytest
from textual.binding import BindingsMap

from rwkvctl.text.sanitize import cell_width
from rwkvctl.tui import keys_page
from rwkvctl.tui.app import Console
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.screens import load
from rwkvctl.tui.shell import help_text
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.table import VTable

PAGE = Path(__file__).resolve().parents[5] / "docs" / "keys.md"
VIEWS = [load(name) for name in TABS]


def test_the_page_of_keys_says_what_the_bindings_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == keys_page.page(), "run: python -m rwkvctl.tui.keys_page > docs/keys.md"


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.NAME)
def test_every_binding_of_every_screen_is_in_its_help_and_on_the_page(view: type[ConsoleScreen]) -> None:
    page, own = keys_page.page(), help_text.own_keys(view)
    written = " ".join(key.keys for key in own).split()
    for kind in view.__mro__:
        for _, binding in BindingsMap(kind.__dict__.get("BINDINGS", ())):
            assert binding.description, f"{kind.__name__}: the key {binding.key} has no words"
            assert f"`{help_text.shown(binding)}`" in page
            if issubclass(kind, ConsoleScreen) and kind is not ConsoleScreen:
                assert help_text.shown(binding) in written
    for key in own:
        assert f"| {key.words} |" in page


def test_every_panel_that_has_keys_is_on_the_page() -> None:
    page = keys_page.page()
    kinds = [*keys_page.panels(), Console]
    assert {VTable, LogView} <= set(kinds)
    for kind in kinds:
        for binding in help_text.declared(kind):
            assert f"`{help_text.shown(binding)}`" in page
            assert f"| {binding.description} |" in page


def test_keys_of_one_action_stand_together_and_are_found_by_their_words() -> None:
    found = help_text.keys_of_panels([VTable, VTable])
    assert help_text.HelpKey("←", "Column to the left", "lists") in found
    assert len([key for key in found if key.words == "Down"]) == 1
    assert [key.keys for key in help_text.matching(found, "CLEAR")] == ["\\"]


def test_a_line_of_help_fits_its_terminal() -> None:
    every = [*help_text.keys_of_panels([VTable, LogView]), *help_text.keys_everywhere(Console)]
    for width in (80, 120, 200):
        lines = [*help_text.help_lines(every, ["rwkvctl stop j1"], "Jobs", width), *help_text.legend(width)]
        said = ["".join(text for text, _ in line) for line in lines]
        assert max(map(cell_width, said)) <= width
        for words in ("keys of Jobs", "rwkvctl stop j1", "‖ paused", "! zombie", "warning", "screens"):
            assert any(words in line for line in said)
