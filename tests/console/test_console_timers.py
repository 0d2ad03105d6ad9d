"""Timers that go off once, on a machine that holds them up as they start."""

import sys
from pathlib import Path
from typing import Any

import pytest
from textual import _time

from rwkvctl import tui


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer that goes off once is held up for ten seconds whenever it has looked at the clock."""
    late_s, real = [0.0], _time.get_time

    def get_time() -> float:
        now = real() + late_s[0]
        late_s[0] += 10.0 * (sys._getframe(1).f_locals.get("_repeat") == 0)
        return now

    monkeypatch.setattr(_time, "get_time", get_time)


async def test_a_change_of_size_is_never_lost(socket_path: Path, driving: Any, fake_daemon: Any, held_up: None) -> None:
    with fake_daemon.serving(socket_path, fake_daemon.Node()):
        async with driving.console(socket_path, (80, 24)) as (app, pilot):
            await driving.until(app, "j1")
            for width, height in ((120, 36), (150, 40)):
                await pilot.resize_terminal(width, height)
                await driving.looking(app, lambda text: len(text.splitlines()) >= height, f"{height} lines are shown")  # noqa: B023


async def test_the_planner_is_asked_for_what_is_typed(
    socket_path: Path, driving: Any, fake_daemon: Any, held_up: None
) -> None:
    node = fake_daemon.Node()
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path) as (app, pilot):
            await driving.until(app, "j1")
            await pilot.press("D", *"builtin")
            await driving.until(app, "rwkvctl dispatch --models builtin")


def test_every_timer_that_goes_off_once_is_one_of_ours() -> None:
    """`set_timer` of a widget would be Textual's: only the app's own method may call it, and `once`."""
    folder = Path(tui.__file__).parent
    calls = {path.name for path in folder.rglob("*.py") if ".set_timer(" in path.read_text(encoding="utf-8")}
    assert calls == {"app.py", "timers.py"}
