"""The console, driven by keys against a daemon that plays."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from rwkvctl.protocol import messages as m
from rwkvctl.tui.app import Console, discover
from rwkvctl.tui.dialogs import Notice, Question
from rwkvctl.tui.dispatching import DispatchForm

SIZES = [(120, 36), (80, 24)]


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "d.sock"


@pytest.fixture
def node(socket_path: Path, fake_daemon: Any) -> Iterator[Any]:
    with fake_daemon.serving(socket_path, fake_daemon.Node()) as playing:
        yield playing


@asynccontextmanager
async def console(socket_path: Path, size: tuple[int, int] = (120, 36)) -> AsyncIterator[tuple[Console, Pilot[None]]]:
    app = Console(socket_path)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield app, pilot


def screen_text(app: Console) -> str:
    """What is on the screen, line by line."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


async def until(app: Console, words: str, timeout_s: float = 8.0) -> str:
    """Wait for words on the screen; the screen is the message if they do not come."""
    for _ in range(int(timeout_s / 0.05)):
        await asyncio.sleep(0.05)
        if words in screen_text(app):
            return screen_text(app)
    raise AssertionError(f"no {words!r} in:\n{screen_text(app)}")


def test_screens_are_discovered_with_distinct_names_and_keys() -> None:
    found = discover()
    assert [screen.NAME for screen in found][:2] == ["overview", "job"]
    assert len({screen.NAME for screen in found}) == len({screen.KEY for screen in found}) == len(found)
    assert all(screen.TITLE for screen in found)


@pytest.mark.parametrize("size", SIZES)
async def test_overview_shows_what_the_daemon_says(node: Any, socket_path: Path, size: tuple[int, int]) -> None:
    async with console(socket_path, size) as (app, _):
        text = ""
        for words in (
            "j1",
            "cpu:0",
            "e1",
            "Running 1",
            "Queue 1",
            "waits-for-engine",
            "Events",
            "Stop…",
            "▸ generating",
        ):
            text = await until(app, words)
        assert all(len(line) <= size[0] for line in text.splitlines())
        assert len(text.splitlines()) == size[1]


async def test_events_move_the_picture(node: Any, socket_path: Path) -> None:
    async with console(socket_path) as (app, _):
        await until(app, "40/100")
        node.change(1, done=77)
        await until(app, "77/100")
        node.change(1, state="done")
        text = await until(app, "ended 1")
        assert "generating to done" in text


async def test_a_lost_daemon_is_said_greyed_and_found_again(socket_path: Path, fake_daemon: Any) -> None:
    node = fake_daemon.Node()
    async with console(socket_path) as (app, _):
        await until(app, "daemon gone, retrying")
        with fake_daemon.serving(socket_path, node):
            await until(app, "● up")
        text = await until(app, "daemon gone, retrying")
        assert "j1" in text
        assert app.screen.query_one("#running").stale
        with fake_daemon.serving(socket_path, node):
            await until(app, "● up")
            assert not app.screen.query_one("#running").stale


@pytest.mark.parametrize("size", SIZES)
async def test_enter_opens_the_job_with_log_and_samples(node: Any, socket_path: Path, size: tuple[int, int]) -> None:
    async with console(socket_path, size) as (app, pilot):
        await until(app, "j1")
        await pilot.press("enter")
        text = await until(app, "The answer is 8.")
        for words in ("rwkv7-g1-2.9b × gsm8k cot", "line 2", "Samples, newest first", "40/100"):
            assert words in text
        node.change(1, done=55)
        await until(app, "55/100")
        await pilot.press("escape")
        await until(app, "Running 1")


async def test_next_job_and_screen_keys(node: Any, socket_path: Path) -> None:
    async with console(socket_path) as (app, pilot):
        await until(app, "j1")
        await pilot.press("2")
        await until(app, "40/100")
        await pilot.press("right_parenthesis")
        await until(app, "◌ queued")
        await pilot.press("1")
        await until(app, "Running 1")


async def test_stop_asks_and_only_y_stops(node: Any, socket_path: Path) -> None:
    async with console(socket_path) as (app, pilot):
        await until(app, "j1")
        await pilot.press("s")
        await until(app, "Stop j1?")
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, Question)
        assert not [asked for asked in node.asked if asked[1] == "/v1/stop"]
        await pilot.press("s")
        await until(app, "rwkvctl stop j1")
        await pilot.press("y")
        await until(app, "ended 1")
        (asked,) = [asked for asked in node.asked if asked[1] == "/v1/stop"]
        assert asked[3]["jobs"] == ["j1"]
        assert asked[3]["request_id"]


async def test_nothing_is_stopped_while_the_daemon_is_gone(node: Any, socket_path: Path) -> None:
    async with console(socket_path) as (app, pilot):
        await until(app, "j1")
        app.state.lose("test")
        app.ask_stop("j1")
        await pilot.pause()
        assert not isinstance(app.screen, Question)


@pytest.mark.parametrize("size", SIZES)
async def test_dispatch_previews_with_the_planner_then_confirms(
    node: Any, socket_path: Path, size: tuple[int, int]
) -> None:
    async with console(socket_path, size) as (app, pilot):
        await until(app, "j1")
        await pilot.press("D")
        await until(app, "New dispatch")
        await pilot.press(*"builtin", "tab", *"gsm8k", "tab", *"20", "enter")
        text = await until(app, "dispatch these 1")
        assert "data-missing" in text
        planned = next(asked[3] for asked in node.asked if asked[1] == "/v1/plan")
        assert planned["selection"]["models"] == ["builtin"]
        assert planned["selection"]["only_datasets"] == ["gsm8k"]
        assert planned["selection"]["limit"] == 20
        await pilot.press("y")
        await until(app, "session s1")
        sent = next(asked[3] for asked in node.asked if asked[1] == "/v1/dispatch")
        assert sent["plan_hash"] == "77c1aa03"
        assert sent["selection"] == planned["selection"]


async def test_dispatch_shows_a_refusal_and_stays(node: Any, socket_path: Path, fake_daemon: Any) -> None:
    from rwkvctl import httpd

    error = m.ErrorReply(code="no-such-model", detail="No model matches x.", status=404, exit_code=4)
    node.answers["/v1/plan"] = lambda _: httpd.Response(404, msgspec.json.encode(error))
    async with console(socket_path) as (app, pilot):
        await until(app, "j1")
        await pilot.press("D", "x", "enter")
        await until(app, "No model matches x.")
        assert isinstance(app.screen, DispatchForm)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, DispatchForm)


async def test_help_comes_from_the_bindings(node: Any, socket_path: Path) -> None:
    async with console(socket_path) as (app, pilot):
        await until(app, "j1")
        await pilot.press("question_mark")
        text = await until(app, "Keys of this screen")
        assert "Stop…" in text
        assert "Overview" in text
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, Notice)


async def test_palette_knows_the_verbs_of_the_command_line(node: Any, socket_path: Path) -> None:
    async with console(socket_path) as (app, pilot):
        await until(app, "j1")
        await pilot.press("ctrl+p", *"doctor")
        await until(app, "What is missing")
        await pilot.press("enter")
        await until(app, "rwkvctl doctor")


async def test_cursor_stays_on_its_job(node: Any, socket_path: Path, fake_daemon: Any) -> None:
    node.jobs = [fake_daemon.job(n) for n in range(1, 6)]
    async with console(socket_path, (80, 24)) as (app, pilot):
        await until(app, "j5")
        await pilot.press("down", "down")
        grid = app.screen.query_one("#running")
        assert grid.chosen == "j3"
        node.change(1, state="done")
        await until(app, "ended 1")
        assert grid.chosen == "j3"


@pytest.mark.parametrize("size", SIZES)
async def test_evil_text_reaches_no_widget(socket_path: Path, fake_daemon: Any, size: tuple[int, int]) -> None:
    evil = fake_daemon.EVIL
    node = fake_daemon.Node()
    node.jobs = [
        fake_daemon.job(1, model=evil, benchmark=evil, detail=evil),
        fake_daemon.job(2, "held", model=evil, detail=evil),
    ]
    node.engines = [fake_daemon.engine(model=evil, detail=evil)]
    stage = m.StageView(stage=evil, prompt=evil, completion=evil, stop=evil)
    node.samples = [fake_daemon.sample(1, extracted=evil, expected=evil, stages=(stage,))]
    node.plan_rows = [m.PlanRow(model=evil, benchmark=evil, kind=evil, action="hold", reason="held", detail=evil)]
    node.log = f"{evil}\n{evil}\n"
    with fake_daemon.serving(socket_path, node):
        async with console(socket_path, size) as (app, pilot):
            await until(app, "j1")
            node.tell("job.state", node.jobs[0], evil)
            seen = [await until(app, "job.state")]
            await pilot.press("s")
            seen.append(await until(app, "Stop j1?"))
            await pilot.press("escape", "D", "enter")
            seen.append(await until(app, "dispatch these 0"))
            await pilot.press("escape")
            await pilot.pause()
            app.open_job("j1")
            seen.append(await until(app, "following"))
            seen.append(await until(app, "wrong"))
            app.tell(evil)
            await pilot.pause(0.3)
            seen.append(screen_text(app))
        await asyncio.sleep(0)
    assert all("\u241b]52" in text for text in seen)
    controls = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]")
    assert not [match for text in seen for match in controls.findall(text)]
