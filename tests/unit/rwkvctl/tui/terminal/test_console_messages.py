"""What a page may say to the console that it shows."""

import pytest

from rwkvctl.tui.terminal.browser_server import understood


@pytest.mark.parametrize(
    "text",
    [
        '["stdin", "j"]',
        '["stdin", "\\u001b[A"]',
        '["resize", {"width": 80, "height": 24}]',
        '["ping", 17123.5]',
        '["ping", "x"]',
        '["blur"]',
        '["focus"]',
    ],
)
def test_messages_of_our_page_are_understood(text: str) -> None:
    assert understood(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '"stdin"',
        '["stdin"]',
        '["stdin", null]',
        '["stdin", ["x"]]',
        '["stdin", "\\ud800"]',
        '["resize", []]',
        '["resize", {"width": 1000000000, "height": 24}]',
        '["resize", {"width": 0, "height": 24}]',
        '["resize", {"width": -1}]',
        '["ping", {}]',
        '["other", 1]',
        "[1, 2]",
        "[" * 5000,
    ],
)
def test_others_are_not(text: str) -> None:
    assert not understood(text)
