"""Drives the console in a test: opens it against a daemon that plays, presses keys, and waits for words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from rwkvctl.tui.app import Console, Options

PATIENCE_S = 20.0
"""How long a test waits for words: loaded machines are slow, and waiting costs nothing where they come."""


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
    for _ in range(int(PATIENCE_S / 0.02)):
        text = screen_text(app)
        if all(word in text for word in words):
            return text
        await asyncio.sleep(0.02)
    raise AssertionError(f"no {words!r} in:\n{screen_text(app)}")


async def gone(app: App[Any], word: str) -> str:
    """Wait until a word is no longer on the screen."""
    for _ in range(int(PATIENCE_S / 0.02)):
        text = screen_text(app)
        if word not in text:
            return text
        await asyncio.sleep(0.02)
    raise AssertionError(f"still {word!r} in:\n{screen_text(app)}")


async def listening(node: Any) -> None:
    """Wait until the console hears the daemon's events."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if any(asked[1] == "/v1/events" for asked in node.asked):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"nobody listens: {node.asked}")


async def settled(app: App[Any]) -> None:
    """Wait until everything that was asked for has been painted."""
    for _ in range(3):
        done = asyncio.Event()
        app.call_after_refresh(done.set)
        await asyncio.wait_for(done.wait(), PATIENCE_S)
