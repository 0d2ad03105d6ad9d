"""Workers of a widget that is closed while they wait."""

import asyncio

from textual.app import App, ComposeResult
from textual.css.query import NoMatches
from textual.widgets import Label
from waiting import soon

from rwkvctl.tui.shell.screen_workers import ScreenWorkers


class Part(ScreenWorkers):
    def compose(self) -> ComposeResult:
        yield Label(id="there")

    async def fill(self, answer: asyncio.Event, name: str) -> None:
        """Draws in a child once an answer has come, whatever becomes of the widget meanwhile."""
        while not answer.is_set():
            try:
                await answer.wait()
            except asyncio.CancelledError:  # as one that was woken in the moment before
                break
        self.query_one(name, Label).update("answer")


async def test_one_that_finds_its_widget_closed_ends() -> None:
    app: App[None] = App()
    async with app.run_test() as pilot:
        part = Part()
        await app.mount(part)
        worker = part.run_worker(part.fill(asyncio.Event(), "#there"))
        await pilot.pause()
        await part.remove()
        await soon(lambda: worker.is_finished, "the worker has ended")
        assert worker.error is None


async def test_a_missing_child_of_one_that_stays_is_a_fault() -> None:
    app: App[None] = App()
    answer = asyncio.Event()
    answer.set()
    async with app.run_test():
        part = Part()
        await app.mount(part)
        worker = part.run_worker(part.fill(answer, "#nowhere"), exit_on_error=False)
        await soon(lambda: worker.is_finished, "the worker has ended")
    assert isinstance(worker.error, NoMatches)
