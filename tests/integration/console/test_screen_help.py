"""Help against a real node; that every screen's own keys are in it shows tests/console/test_console.py."""

from typing import Any


async def test_help_is_searched_scrolls_and_goes_back_where_one_came_from(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(80, 24)) as hands:
        await hands.press("8", see="4 layers, width 128")
        await hands.press("0", see=("keys of Weights", "Download…", "Verify"))
        await hands.press("G", see=("colours", "out of date: no daemon answers", "‖ paused", "! zombie"))
        await hands.press("slash")
        await hands.type("priority")
        await hands.gone("Verify")
        await hands.press("escape")
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
