"""The log widget: follows, stands still without loss, searches, filters, wraps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from rwkvctl.tui.logs.store import LogStore
from rwkvctl.tui.logs.view import LogView


class Shown(App[None]):
    def __init__(self, store: LogStore | None = None) -> None:
        super().__init__()
        self.view = LogView(id="log", store=store)
        self.missed = 0

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def on_log_view_missed(self) -> None:
        self.missed += 1


@asynccontextmanager
async def shown(count: int = 0, store: LogStore | None = None) -> AsyncIterator[tuple[Shown, Pilot[None]]]:
    app = Shown(store)
    async with app.run_test(size=(50, 11)) as pilot:
        app.view.feed("".join(line(number) for number in range(count)))
        yield app, pilot


def line(number: int) -> str:
    bad = "E judge 429" if number % 50 == 49 else "I worker fine"
    return f"02:{number // 60 % 60:02d}:{number % 60:02d} {bad} n={number}=\n"


async def test_it_follows_and_stands_still_without_loss(driving: Any) -> None:
    async with shown(300) as (app, pilot):
        await driving.until(app, "n=299=", "following")
        await pilot.press("k", "k")
        text = await driving.until(app, "2 lines below")
        app.view.feed("".join(line(number) for number in range(300, 5000)))
        after = await driving.until(app, "4,702 lines below")
        assert text.split("\n")[1:] == after.split("\n")[1:]
        await pilot.press("F")
        await driving.until(app, "n=4999=", "following")
        assert app.view.store.end == 5000
        await pilot.press("g")
        await driving.until(app, "n=0=")


async def test_repeated_lines_are_drawn_as_one_that_says_how_many(driving: Any) -> None:
    async with shown(100) as (app, _):
        await driving.until(app, "n=99=", "following")
        app.view.action_fold()
        text = await driving.until(app, "folded", "47 lines folded that differ only in numbers", "n=50=", "n=98=")
        assert "n=97=" not in text
        app.view.action_fold()
        await driving.until(app, "n=97=")


async def test_old_lines_go_but_the_view_stays_where_it_can(driving: Any) -> None:
    async with shown(300, LogStore(200)) as (app, pilot):
        await driving.until(app, "n=299=")
        await pilot.press("ctrl+u")
        text = await driving.until(app, "lines below")
        app.view.feed("".join(line(number) for number in range(300, 400)))
        assert (await driving.until(app, "105 lines below")).split("\n")[1:] == text.split("\n")[1:]
        app.view.feed("".join(line(number) for number in range(400, 1000)))
        await driving.until(app, "n=800=")


async def test_search_goes_on_and_back_and_says_when_there_is_no_more(driving: Any) -> None:
    async with shown(300) as (app, pilot):
        await pilot.press("g")
        app.view.find("n=1")
        await driving.until(app, "n=1=", "&n=1")
        assert app.view.places.number(app.view.top) == 1
        await pilot.press("n")
        assert app.view.places.number(app.view.top) == 10
        await pilot.press("N")
        assert app.view.places.number(app.view.top) == 1
        await pilot.press("N")
        await pilot.pause()
        assert app.missed == 1
        strip = app.view.render_line(1)
        assert [
            segment.text for segment in strip if segment.style and segment.style.bgcolor and segment.style.bold
        ] == ["n=1"]
        with pytest.raises(ValueError, match="regular expression"):
            app.view.find("re:(")
        await pilot.press("greater_than_sign")
        assert app.view.places.number(app.view.top) == 49
        await pilot.press("greater_than_sign", "greater_than_sign", "less_than_sign")
        assert app.view.places.number(app.view.top) == 99


async def test_a_filter_hides_follows_and_keeps_the_line(driving: Any) -> None:
    async with shown(300) as (app, pilot):
        app.view.filter("judge")
        await driving.until(app, "6 of 300", "n=299=", "n=49=")
        app.view.feed(line(349))
        await driving.until(app, "7 of 301", "n=349=")
        await pilot.press("g")
        app.view.filter("")
        await pilot.press("v")
        await driving.until(app, "warnings and errors", "7 of 301")
        await pilot.press("v")
        await driving.until(app, "errors only")
        await pilot.press("v")
        await driving.gone(app, "errors only")
        app.view.filter("zzz")
        await driving.until(app, "0 of 301")
        await pilot.press("j", "k", "g", "F", "n", "ctrl+d")


async def test_wrap_times_marks_and_sideways(driving: Any) -> None:
    async with shown() as (app, pilot):
        app.view.feed("02:00:00 I " + "abc " * 30 + "END\n02:00:05 I next\n")
        await driving.until(app, "next")
        await pilot.press("w")
        await driving.until(app, "END", "next")
        await pilot.press("g", "j", "j")
        await driving.until(app, "END")
        await pilot.press("w", "right", "right", "right", "right", "right", "right")
        await driving.until(app, "END")
        await pilot.press("left", "left", "left", "left", "left", "left", "left", "t")
        await driving.until(app, "+5s I next")
        await pilot.press("t")
        await driving.gone(app, "+5s")
        assert "02:00:05" not in driving.screen_text(app)
        await pilot.press("t", "m")
        await driving.until(app, "─ mark 1 ─")
        app.view.note("gap 02:58:52–02:59:20, 214 lines fetched")
        await driving.until(app, "214 lines fetched")


async def test_a_time_can_be_gone_to(driving: Any) -> None:
    async with shown(300) as (app, _):
        assert app.view.go_to_time("02:03:20")
        await driving.until(app, "n=200=")
        assert app.view.places.number(app.view.top) == 200
        assert app.view.copied().endswith("n=200=")
        assert not app.view.go_to_time("noon")


async def test_an_empty_log_takes_every_key(driving: Any) -> None:
    async with shown() as (app, pilot):
        await pilot.press(*"jkgGFwtvnN", "ctrl+d", "ctrl+u", "left", "right", "greater_than_sign", "m")
        await driving.until(app, "mark 1")
        assert app.view.copied() in {"", "mark 1"}


async def test_a_partial_line_waits_for_its_end_and_clear_forgets(driving: Any) -> None:
    async with shown() as (app, _):
        app.view.feed("half")
        app.view.feed(" and half\n")
        await driving.until(app, "half and half")
        app.view.clear()
        await driving.gone(app, "half")
        app.view.feed("fresh\n")
        await driving.until(app, "fresh")
