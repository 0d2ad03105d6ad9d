"""The console on a node on which nothing has been done yet."""

from typing import Any

from rwkvctl.tui.tabs import TABS


async def test_no_list_waits_for_what_will_not_come(new_node: Any, pressing: Any) -> None:
    node = new_node()
    node.start()
    async with pressing(node, size=(200, 60)) as hands:
        for name, tab in TABS.items():
            if tab.key:
                await hands.pilot.press(tab.key)
                await hands.settled()
                assert name == hands.app.frame.view.NAME
                await hands.gone("loading")
