"""Drives the console in a test: opens it against a daemon that plays, presses keys, and waits for words."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from waiting import LIMIT_S, LOOK_S, soon

from rwkvctl.tui.app import Console
from rwkvctl.tui.options import Options


@asynccontextmanager
async def console(
    socket: Path, size: tuple[int, int] = (120, 36), options: Options | None = None
) -> AsyncIterator[tuple[Console, Pilot[None]]]:
    """The console on a terminal of some size."""
    app = Console(socket, options)
    async with app.run_test(size=size) as pilot:
        try:
            yield app, pilot
        finally:
            app.exit()


def screen_text(app: App[Any]) -> str:
    """What is on the screen, line by line."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


async def until(app: App[Any], *words: str) -> str:
    """Wait until all of these words are on the screen; the screen is the message if they do not come."""
    return await looking(app, lambda text: all(word in text for word in words), f"{words!r} are seen")


async def gone(app: App[Any], word: str) -> str:
    """Wait until a word is no longer on the screen."""
    return await looking(app, lambda text: word not in text, f"{word!r} is no longer seen")


async def looking(app: App[Any], what: Callable[[str], bool], saying: str) -> str:
    """Look at the screen until something is true of it; returns the screen."""
    deadline = time.monotonic() + LIMIT_S
    while not what(text := screen_text(app)):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {LIMIT_S:g} s in vain until {saying}:\n{text}")
        await asyncio.sleep(LOOK_S)
    return text


async def listening(node: Any) -> None:
    """Wait until the console hears the daemon's events."""
    await soon(lambda: any(asked[1] == "/v1/events" for asked in node.asked), "the console follows the events")


async def settled(app: App[Any]) -> None:
    """Wait until everything that was asked for has been painted."""
    for _ in range(3):
        done = asyncio.Event()
        app.call_after_refresh(done.set)
        await asyncio.wait_for(done.wait(), LIMIT_S)
