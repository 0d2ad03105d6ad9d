"""Nothing that a model, a dataset or a foreign process wrote can drive the operator's terminal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostile
import hostile_daemon
import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult

from rwkvctl.protocol.views import LeaseView, PlanRow, StageView
from rwkvctl.text.sanitize import cell_width, fit, safe_line
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.chart import Chart, Point
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.table_columns import Column


def test_every_string_is_as_wide_as_the_console_thinks() -> None:
    for text in hostile.SHORT:
        shown = safe_line(text)
        assert cell_len(shown) == cell_width(shown)
        assert cell_width(fit(shown, 10)) <= 10
        assert safe_line(shown) == shown
        assert not hostile.wrong(shown)


class Widgets(App[None]):
    """Every widget of the console, each with every string."""

    def __init__(self, corpus: tuple[str, ...]) -> None:
        super().__init__()
        self.corpus = corpus

    def compose(self) -> ComposeResult:
        yield VTable([Column("X", lambda row: row, 30), Column("Y", lambda row: "right", 8)], safe_line, id="table")
        yield LogView(id="log")
        yield Lines(id="lines", grows=True)
        yield Reading(id="reading")
        yield Chart(id="chart")

    def on_mount(self) -> None:
        self.query_one("#table", VTable).show(self.corpus[0], self.corpus)
        self.query_one(LogView).feed("".join(f"{text}\n" for text in self.corpus))
        self.query_one(LogView).note(self.corpus[0])
        pieces = [[(text, ""), ("right", "")] for text in self.corpus]
        self.query_one(Lines).show(pieces, title=[(self.corpus[0], "title")])
        self.query_one(Reading).show(pieces)
        self.query_one(Chart).show([(self.corpus[0], "")], [Point(1, 0, 2, "x")], (0, 2))


async def test_no_widget_lets_one_through_or_moves_what_stands_beside_it(driving: Any) -> None:
    async with Widgets(hostile.SHORT).run_test(size=(100, 150)) as pilot:
        app = pilot.app
        text = await driving.until(app, "␛]52", "right to left", "[/nope]", "following")
        assert not hostile.wrong(text)
        strips = app.screen._compositor.render_strips()
        assert {sum(cell_len(segment.text) for segment in line) for line in strips} == {100}
        columns = {cell_len("".join(s.text for s in line).rpartition("right ")[0]) for line in strips[2:32]}
        assert columns == {32}


@pytest.mark.parametrize("differ", ["1", "0"])
def test_none_reaches_the_terminal_on_any_screen(
    socket_path: Path, fake_daemon: Any, console_module: Callable[[str], Any], differ: str
) -> None:
    seen = ("\x1b]52;c;RVZJTA==\x07 clipboard", "\u202eesrever", "\x1bc reset", "\u0627\u0644 right to left")
    corpus = (*(text for text in hostile.STORABLE if text not in seen), *seen)
    everything = " ".join(hostile.STORABLE)
    node = fake_daemon.Node()
    node.jobs = [fake_daemon.job(n + 1, ["queued", "held", "failed", "done", "generating"][n % 5], model=text,
                                 benchmark=text, kind=text, detail=text) for n, text in enumerate(corpus)]  # fmt: skip
    node.engines = [fake_daemon.engine(model=everything, detail=everything)]
    node.lease_views = [LeaseView(id=text, name=text, use="zombie", why=text) for text in corpus[:9]]
    stage = StageView(stage="x", prompt=everything, completion=everything, stop="x")
    node.samples = [
        fake_daemon.sample(n, extracted=text, expected=text, stages=(stage,)) for n, text in enumerate(corpus)
    ]
    node.plan_rows = [PlanRow(model=text, benchmark=text, kind=text, action="hold", reason="held", detail=text)
                      for text in reversed(corpus)]  # fmt: skip
    node.log = "".join(f"{text}\n" for text in corpus)
    with fake_daemon.serving(socket_path, node):
        shell = console_module("console_terminal").Shell(socket_path, (130, 40), RWKVCTL_TUI_DIFF=differ)
        try:
            shell.type("", "Queue")
            for text in corpus:
                node.tell("daemon", None, text)
            shell.type("", "right to left")
            shell.type("\r", "following", "COMPLETION", "␛c reset")
            shell.type("3", "─ all ", "␛c reset")
            shell.type("2", "Would not run", "<202e>esrever")
            shell.type("1", "Queue")
            shell.type("\ts", "Stop ")
            shell.type("n", gone="Stop j")
            shell.type("D", "New dispatch")
            shell.type("\r", "dispatch these 0")
            shell.type("\x1b", gone="New dispatch")
            shell.type("\x10", "go to Overview")
            shell.type("\x1b", gone="go to Overview")
            shell.type(":", gone="enter open")
            shell.type("\x1b[200~pasted\x07\u202e\x1b[201~", "pasted␇<202e>")
            shell.type("\r", "has no verb")
            shell.type("\x03", gone=": pasted")
            shell.type(":jobs --limit 30\r", "rwkvctl jobs --limit", "exit 0")
            whole = shell.received.removesuffix(shell.screen.rest)  # the last piece may end within a sequence
            assert not hostile.wrong(whole)
            assert "␛]52;c;RVZJTA==␇" in shell.received or differ == "1"
        finally:
            shell.end()


@pytest.mark.parametrize("texts", [hostile.STORABLE, ("\ud800 unreadable",)], ids=["hostile", "unreadable"])
async def test_no_screen_lets_through_what_any_answer_holds(
    texts: tuple[str, ...], socket_path: Path, driving: Any
) -> None:
    daemon = hostile_daemon.HostileDaemon(hostile_daemon.cycling(texts))
    with hostile_daemon.serving(socket_path, daemon.handle):
        async with driving.console(socket_path, (150, 50)) as (app, pilot):
            await driving.looking(app, lambda _: len(daemon.sent) > 3, "the first answers came")
            for name in TABS:
                for about in ABOUT.get(name, ("",)):
                    app.go(name, about)
                    for key in ("", "down", "enter", "tab", "enter"):
                        await pilot.press(*filter(None, [key]))
                        await driving.settled(app)
                        assert not hostile.wrong(driving.screen_text(app)), (name, about, key)
                        assert (command := app.frame.view.command()) == safe_line(command)


ASKED_FOR = ("it's", "a\x1b[2J b", 'a "b', "$'", "\0", "--no-such-flag", "j1:x|", "=", "job filter=nothing")


@pytest.mark.parametrize("asked", [2, pytest.param(len(ASKED_FOR), marks=pytest.mark.slow("console"))])
@pytest.mark.usefixtures("node")
async def test_no_screen_ends_the_console_whatever_it_is_asked_for(socket_path: Path, driving: Any, asked: int) -> None:
    async with driving.console(socket_path, (150, 50)) as (app, pilot):
        await driving.until(app, "Queue")
        for name in TABS:
            for about in ASKED_FOR[:asked]:
                app.go(name, about)
                await driving.settled(app)
                await pilot.press("down", "enter")
                await driving.settled(app)
                assert not hostile.wrong(driving.screen_text(app)), (name, about)
        await pilot.press(":", *'compare "it', "apostrophe", *'s"', "enter")
        await driving.settled(app)


async def test_what_cannot_be_shown_is_said(socket_path: Path, driving: Any) -> None:
    daemon = hostile_daemon.HostileDaemon(lambda: "\ud800 unreadable")
    with hostile_daemon.serving(socket_path, daemon.handle):
        async with driving.console(socket_path, (150, 50)) as (app, _):
            app.go("logs", "j1")
            await driving.until(app, "stream cannot be read by this console")


async def test_a_word_that_no_command_can_hold_is_refused(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "Queue")
        await pilot.press(":", *"show $'a", "backslash", *"000b'", "enter")
        await driving.until(app, "NUL")
        app.commander.run("benchmarks", "show", "a\0b")
        await driving.until(app, "NUL")


ODD = ("it's", 'a "b', "$'", "\0", "a\x1b[2J b", "--no-such-flag", "j1:x|", "=", "job filter=nothing")
"""What may be typed after a screen's name, and means nothing."""
ABOUT = {"job": ("j1",), "samples": ("j1", "j1 filter=wrong"), "sample": ("j1:7",), "compare": ("a b",),
         "logs": ("j1", "daemon"), "queue": ("", "--models builtin")}  # fmt: skip
"""What is asked of a screen, where that is not everything."""
