"""Help against a real node: from every screen, its own keys."""

from typing import Any

import pytest

from rwkvctl.tui import help as keys
from rwkvctl.tui.screens import TABS, load


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_every_screen_s_own_keys_are_in_its_help(measured: Any, pressing: Any, size: tuple[int, int]) -> None:
    async with pressing(measured, size=size) as hands:
        for name, tab in TABS.items():
            if name == "help":
                continue
            hands.app.go(name)
            hands.app.action_help()
            text = await hands.see(f"keys of {tab.title}")
            for key in keys.own_keys(load(name))[:6]:
                assert key.keys.split()[0] in text
            await hands.press("escape")
            await hands.gone(f"keys of {tab.title}  ")


async def test_help_is_searched_scrolls_and_goes_back_where_one_came_from(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(80, 24)) as hands:
        await hands.press("8", see="builtin")
        await hands.press("0", see=("keys of Weights", "Download…", "Verify"))
        await hands.press("G", see=("colours", "old: the daemon is gone", "‖ paused", "! zombie"))
        await hands.press("slash")
        await hands.type("priority")
        await hands.gone("Verify")
        await hands.press("escape", see="keys of Weights")
        await hands.press("slash")
        await hands.type("verif")
        await hands.press("enter")
        await hands.gone("Download…")
        await hands.press("escape", see="Download…")  # out of the search first
        await hands.press("escape", see="builtin")
        await hands.press("question_mark", see="keys of Weights")
        await hands.press("question_mark", see="builtin")
        await hands.press("colon")
        await hands.type("help")
        await hands.press("enter", see="keys of")
        hands.app.go("help", "")
        await hands.see("keys of every screen", "Overview", "Queue")
